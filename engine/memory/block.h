// A run of addresses in one state. Blocks tile every reserved range with mapped
// parts, used or free, and unmapped parts. A range grows into its last unmapped
// part.
#pragma once

#include <cstdint>

#include "engine/memory/timeline.h"

namespace gpupool::engine {

class FreeIndex;
struct OwnerAccount;

enum class BlockState : uint8_t {
  kUnmapped,  // reserved addresses without memory
  kFree,      // in the index `home`
  kUsed,      // held by an owner
  kLeaving,   // given back, but not yet passed by the streams that used it
};

// The fields that a neighbour reads lie in the first cache line.
struct alignas(64) Block {
  uint64_t address = 0;
  uint64_t bytes = 0;
  BlockState state = BlockState::kUnmapped;
  // The stream of a used block: it was allocated for that one. The stream of a
  // block in a stream's index: that one may use the block at once.
  StreamId stream = kDefaultStream;
  // The moment after which a block in a stream's index is free for every
  // stream. In a used block: the end of its earlier use, if it was reused
  // before that.
  Moment after;
  FreeIndex* home = nullptr;  // null unless free
  // The neighbours by address; null at the ends of a range.
  Block* previous = nullptr;
  Block* next = nullptr;
  // The next block in a free list or in the list of unmapped blocks, and the
  // pointer in that list that points to this block.
  Block* next_free = nullptr;
  Block** link = nullptr;
  // The neighbours in a stream's list, which is ordered by counter.
  Block* earlier = nullptr;
  Block* later = nullptr;
  // The bytes that the owner of a used block asked for, and its account.
  uint64_t requested_bytes = 0;
  OwnerAccount* account = nullptr;

  uint64_t end() const { return address + bytes; }
};

}  // namespace gpupool::engine
