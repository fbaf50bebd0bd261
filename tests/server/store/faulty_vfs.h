// An SQLite VFS over the default one whose N-th write or sync fails, as a
// failing disk would. While one lives it is the process's default VFS.
#pragma once

#include <memory>

namespace gpupool::server {

class FaultyVfs {
 public:
  FaultyVfs();
  ~FaultyVfs();

  // Call number `call` from now on (0 is the next) fails with `code`, an
  // SQLITE_ code, and so does every later one.
  void FailFrom(int call, int code);
  void Heal();
  // Writes and syncs since FailFrom or Heal.
  int calls() const;

  struct State;

 private:
  std::unique_ptr<State> state_;
};

}  // namespace gpupool::server
