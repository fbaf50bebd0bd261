// A run of addresses in one state. Blocks tile every reserved range: mapped
// parts that are used or free, and unmapped parts, of which the last one of a
// range is where it grows.
#pragma once

#include <cstdint>

#include "engine/memory/timeline.h"

namespace gpupool::engine {

class FreeIndex;
struct OwnerAccount;

enum class BlockState : uint8_t {
  kUnmapped,  // addresses without memory
  kFree,      // in the index `home`
  kUsed,      // given out
  kLeaving,   // given back, but streams that used it have not passed it
};

// The first cache line is what a neighbour reads.
struct alignas(64) Block {
  uint64_t address = 0;
  uint64_t bytes = 0;
  BlockState state = BlockState::kUnmapped;
  // Used: the stream it was allocated for. Free in a stream's index: that
  // stream, which may use it at once.
  StreamId stream = kDefaultStream;
  // Free in a stream's index: when it is free for everybody. Used: the moment
  // after which its earlier use ends, if it was reused before that.
  Moment after;
  FreeIndex* home = nullptr;  // null unless free
  // Neighbours by address; null at the ends of a range.
  Block* previous = nullptr;
  Block* next = nullptr;
  // Next in a free list, or in the list of unmapped blocks, and the pointer in
  // that list that points here.
  Block* next_free = nullptr;
  Block** link = nullptr;
  // Neighbours in a stream's list by counter.
  Block* earlier = nullptr;
  Block* later = nullptr;
  // Of a used block: what its owner asked for, and who that is.
  uint64_t requested_bytes = 0;
  OwnerAccount* account = nullptr;

  uint64_t end() const { return address + bytes; }
};

}  // namespace gpupool::engine
