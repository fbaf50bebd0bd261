#include "server/control/records/event_thinning.h"

#include <bit>

namespace gpupool::server {
namespace {

// Returns how often the age of kEventsKept doubles before the event is dropped:
// 0 for half of the events, 1 for a quarter, ... Levels come from a hash (the
// finalizer of splitmix64) instead of the sequence, since every second event
// may be of one kind.
int LevelOf(uint64_t sequence) {
  uint64_t hash = sequence;
  hash = (hash ^ (hash >> 30)) * 0xbf58476d1ce4e5b9;
  hash = (hash ^ (hash >> 27)) * 0x94d049bb133111eb;
  return std::countr_zero(hash ^ (hash >> 31));
}

}  // namespace

std::vector<uint64_t> EventsToDrop(uint64_t newest) {
  std::vector<uint64_t> drop;
  uint64_t age = kEventsKept;
  for (int level = 0; age < newest; ++level, age *= 2) {
    if (LevelOf(newest - age) == level) drop.push_back(newest - age);
  }
  return drop;
}

}  // namespace gpupool::server
