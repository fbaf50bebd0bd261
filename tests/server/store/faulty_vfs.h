// An SQLite VFS over the default one. Its N-th call that changes something (a
// file is created or removed, a write, truncation or sync) fails as on a
// failing disk, or is the moment of a power cut. During its lifetime it is the
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

  // Makes call `call` from now on (0 is the next), and every later one, fail
  // with `code`, an SQLITE_ code.
  void FailFrom(int call, int code);
  // Makes only that call fail.
  void FailOnce(int call, int code);
  // Makes all syncs of the file fail.
  void FailSyncsOf(const std::string& path);
  // Makes failing writes write their first half.
  void ShortWrites();
  void Heal();
  // Returns the number of such calls since FailFrom, FailOnce, CutPowerAt or
  // Heal.
  int calls() const;

  // Records the disk's image from now on, until Heal. From call `call` on
  // everything fails, including reads, and the image no longer changes. No file
  // may be open. Syncs no longer reach the real disk.
  void CutPowerAt(int call);
  bool power_is_off() const;
  // Makes syncs do nothing, like PRAGMA synchronous = OFF.
  void LieAboutSyncs();
  const DiskImage& image() const;

  struct State;

 private:
  std::unique_ptr<State> state_;
};

}  // namespace gpupool::server
