// Makes SQLite's N-th allocation fail during its lifetime, as on a machine
// without memory. No database may be open when it is made or destroyed.
#pragma once

#include <sqlite3.h>

namespace gpupool::server {

class FaultyMemory {
 public:
  FaultyMemory();
  ~FaultyMemory();
  FaultyMemory(const FaultyMemory&) = delete;
  FaultyMemory& operator=(const FaultyMemory&) = delete;

  // Makes allocation `call` from now on fail (0 is the next) and, with
  // `all_later`, every later one too.
  void FailAt(int call, bool all_later);
  void Heal();
  // Returns the number of allocations since FailAt or Heal.
  int calls() const;
};

}  // namespace gpupool::server
