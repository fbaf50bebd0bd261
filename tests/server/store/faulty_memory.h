// While one lives, SQLite's N-th allocation fails as on a machine without
// memory. No database may be open when it comes and goes.
#pragma once

#include <sqlite3.h>

namespace gpupool::server {

class FaultyMemory {
 public:
  FaultyMemory();
  ~FaultyMemory();
  FaultyMemory(const FaultyMemory&) = delete;
  FaultyMemory& operator=(const FaultyMemory&) = delete;

  // Allocation number `call` from now on (0 is the next) fails, and with
  // `all_later` every one after it too.
  void FailAt(int call, bool all_later);
  void Heal();
  // Since FailAt or Heal.
  int calls() const;
};

}  // namespace gpupool::server
