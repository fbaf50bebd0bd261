// Free blocks by size, found in constant time: two-level segregated fit
// (Masmano, Ripoll, Crespo and Real, "TLSF: a new dynamic memory allocator
// for real-time systems", 2004). A class is a power of two, cut into 32 parts;
// bits say which classes have blocks. A block that is found is at most a
// thirty-second larger than the smallest that would do, and often exact: the
// class of the request itself is looked at first.
//
// Sizes are as good as random, so every branch on them is mispredicted half of
// the time and costs more than all else. There are few: lists end at a block
// without bytes instead of null, and bits are set and cleared by arithmetic.
//
// Thread-safety: none. Ownership: none; blocks are linked through their own
// fields and know the index as their home.
#pragma once

#include <array>
#include <cstdint>

#include "engine/memory/block.h"

namespace gpupool::engine {

// Sizes of blocks are multiples of this.
inline constexpr uint64_t kBlockUnitBytes = 256;

class FreeIndex {
 public:
  FreeIndex();
  FreeIndex(const FreeIndex&) = delete;
  FreeIndex& operator=(const FreeIndex&) = delete;

  void Insert(Block* block);
  void Remove(Block* block);
  // A block of at least `bytes` > 0, still inside; null when there is none.
  Block* Find(uint64_t bytes) const;
  bool empty() const { return first_ == 0; }
  // Of the largest block; 0 when empty. Not constant: one class is walked.
  uint64_t largest_bytes() const;

 private:
  static constexpr uint32_t kSecondBits = 5;
  static constexpr uint32_t kSeconds = 1 << kSecondBits;
  static constexpr uint32_t kFirsts = 64 - 8 - kSecondBits + 1;
  struct Class {
    uint32_t first;
    uint32_t second;
  };
  static Class ClassOf(uint64_t bytes);
  // Returns the end of the lists if there is none.
  Block* FirstOfLargerClass(const Class& at) const;

  uint64_t first_ = 0;  // which of second_ have bits
  std::array<uint32_t, kFirsts> second_{};
  std::array<std::array<Block*, kSeconds>, kFirsts> heads_;
  Block end_;  // closes every list
};

}  // namespace gpupool::engine
