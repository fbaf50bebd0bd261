// An SQLite VFS over the default one whose N-th call that changes something (a
// file is created or removed, a write, truncation or sync) fails as it does on
// a failing disk, or at which the power goes. While one lives it is the
// process's default VFS.
#pragma once

#include <memory>
#include <string>

#include "tests/server/store/disk_image.h"

namespace gpupool::server {

class FaultyVfs {
 public:
  FaultyVfs();
  ~FaultyVfs();

  // Call number `call` from now on (0 is the next) fails with `code`, an
  // SQLITE_ code, and so does every later one.
  void FailFrom(int call, int code);
  // Only that call.
  void FailOnce(int call, int code);
  // All syncs of the file fail.
  void FailSyncsOf(const std::string& path);
  // Writes that fail write their first half.
  void ShortWrites();
  void Heal();
  // Such calls since FailFrom, FailOnce, CutPowerAt or Heal.
  int calls() const;

  // From now on the disk's image is kept, until Heal; at the call everything
  // begins to fail, reads too, and the image stays. No file may be open. Syncs
  // do not reach the real disk any more.
  void CutPowerAt(int call);
  bool power_is_off() const;
  // Syncs do nothing: what PRAGMA synchronous = OFF amounts to.
  void LieAboutSyncs();
  const DiskImage& image() const;

  struct State;

 private:
  std::unique_ptr<State> state_;
};

}  // namespace gpupool::server
