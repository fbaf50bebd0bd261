#include "tests/server/store/faulty_memory.h"

#include <limits>

namespace gpupool::server {
namespace {

// SQLite's methods have no context argument, so the state is global.
struct State {
  sqlite3_mem_methods real = {};
  int calls = 0;
  int from = std::numeric_limits<int>::max();
  int until = std::numeric_limits<int>::max();  // succeeds again from here on
};
State state;

bool Fails() {
  const int call = state.calls++;
  return call >= state.from && call < state.until;
}

void* Malloc(int bytes) {
  return Fails() ? nullptr : state.real.xMalloc(bytes);
}

void* Realloc(void* memory, int bytes) {
  return Fails() ? nullptr : state.real.xRealloc(memory, bytes);
}

}  // namespace

FaultyMemory::FaultyMemory() {
  state = {};
  sqlite3_shutdown();
  sqlite3_config(SQLITE_CONFIG_GETMALLOC, &state.real);
  sqlite3_mem_methods faulty = state.real;
  faulty.xMalloc = Malloc;
  faulty.xRealloc = Realloc;
  sqlite3_config(SQLITE_CONFIG_MALLOC, &faulty);
}

FaultyMemory::~FaultyMemory() {
  sqlite3_shutdown();
  sqlite3_config(SQLITE_CONFIG_MALLOC, &state.real);
}

void FaultyMemory::FailAt(int call, bool all_later) {
  state.calls = 0;
  state.from = call;
  state.until = all_later ? std::numeric_limits<int>::max() : call + 1;
}

void FaultyMemory::Heal() {
  FailAt(std::numeric_limits<int>::max() - 1, false);
}

int FaultyMemory::calls() const { return state.calls; }

}  // namespace gpupool::server
