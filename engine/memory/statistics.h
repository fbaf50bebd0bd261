// What an allocator says about itself: plain values, copied out under its
// lock. Names follow PyTorch's memory statistics.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace gpupool::engine {

// Who holds a block: the holder ("job 7", "model digits v1") and what it
// holds it for ("weights", "arena").
struct Owner {
  std::string holder;
  std::string use;

  // "job 7 / weights"
  std::string Label() const { return holder + " / " + use; }
};

struct OwnerUsage {
  std::string label;
  uint64_t bytes = 0;
};

struct MemoryStatistics {
  uint64_t limit_bytes = 0;
  uint64_t allocated_bytes = 0;  // held by owners, rounded to the alignment
  uint64_t requested_bytes = 0;  // held by owners, as they asked
  uint64_t reserved_bytes = 0;   // taken from the source, cache included
  uint64_t peak_allocated_bytes = 0;
  uint64_t peak_reserved_bytes = 0;
  uint64_t largest_free_bytes = 0;  // the largest cached block
  uint64_t allocations = 0;         // count since start
  uint64_t frees = 0;
  uint64_t segment_allocations = 0;
  uint64_t segment_frees = 0;
  uint64_t retries = 0;            // allocations that had to empty the cache
  uint64_t out_of_memory = 0;      // allocations that failed
  std::vector<OwnerUsage> owners;  // largest first, then by label
};

struct BlockFacts {
  uint64_t offset = 0;
  uint64_t bytes = 0;
  uint64_t requested_bytes = 0;  // 0 when free
  bool free = false;
  std::string owner;  // empty when free
};

struct SegmentFacts {
  uint64_t address = 0;
  uint64_t bytes = 0;
  std::vector<BlockFacts> blocks;  // by offset; they tile the segment
};

struct MemorySnapshot {
  std::vector<SegmentFacts> segments;  // by address
};

}  // namespace gpupool::engine
