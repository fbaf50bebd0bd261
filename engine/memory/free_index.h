// An index of free blocks by size with constant-time search: two-level
// segregated fit (Masmano, Ripoll, Crespo and Real, "TLSF: a new dynamic memory
// allocator for real-time systems", 2004). Each power of two is cut into 32
// classes, and bits say which classes have blocks. A block that is found is at
// most a thirty-second larger than the smallest that would do, and often exact,
// because the class of the request itself is searched first.
//
// Sizes are practically random, so a branch on them is mispredicted half of the
// time and costs more than everything else. Therefore lists end at a block
// without bytes instead of null, and bits are set and cleared by arithmetic.
//
// Thread-safety: none. Ownership: none; blocks are linked through their own
// fields, and `home` points to their index.
#pragma once

#include <array>
#include <cstdint>

#include "engine/memory/block.h"

namespace gpupool::engine {

// The unit of block sizes: every size is a multiple of it.
inline constexpr uint64_t kBlockUnitBytes = 256;

class FreeIndex {
 public:
  FreeIndex();
  FreeIndex(const FreeIndex&) = delete;
  FreeIndex& operator=(const FreeIndex&) = delete;

  void Insert(Block* block);
  void Remove(Block* block);
  // Returns a block of at least `bytes` > 0, which stays in the index; null
  // when there is none.
  Block* Find(uint64_t bytes) const;
  bool empty() const { return first_ == 0; }
  // Returns the bytes of the largest block; 0 when empty. Walks the list of one
  // class, so it is not constant time.
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
  // Returns the first block of a larger class, or the end of the lists.
  Block* FirstOfLargerClass(const Class& at) const;

  uint64_t first_ = 0;  // one bit for each element of second_ that has bits
  std::array<uint32_t, kFirsts> second_{};
  std::array<std::array<Block*, kSeconds>, kFirsts> heads_;
  Block end_;  // closes every list
};

}  // namespace gpupool::engine
