// An allocator's statistics: plain values, copied out under its lock. Names
// follow PyTorch's memory statistics.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "engine/memory/history.h"
#include "engine/memory/memory_figures.h"

namespace gpupool::engine {

// The owner of a block: the holder ("job 7", "model digits v1") and the use
// ("weights", "arena").
struct Owner {
  std::string holder;
  std::string use;

  // Returns "job 7 / weights".
  std::string Label() const { return holder + " / " + use; }
  bool operator==(const Owner&) const = default;
  template <typename State>
  friend State AbslHashValue(State state, const Owner& owner) {
    return State::combine(std::move(state), owner.holder, owner.use);
  }
};

struct OwnerUsage {
  std::string label;
  uint64_t bytes = 0;
};

struct MemoryStatistics {
  uint64_t limit_bytes = 0;       // reduced by the fraction in force
  uint64_t allocated_bytes = 0;   // held by owners, rounded to the alignment
  uint64_t requested_bytes = 0;   // held by owners, as requested
  uint64_t held_block_bytes = 0;  // the blocks for allocated_bytes
  uint64_t reserved_bytes = 0;    // taken from the source, cache included
  uint64_t peak_allocated_bytes = 0;
  uint64_t peak_reserved_bytes = 0;
  uint64_t largest_free_bytes = 0;  // the largest cached block
  uint64_t allocations = 0;         // count since start
  uint64_t frees = 0;
  uint64_t segment_allocations = 0;  // physical chunks since start
  uint64_t segment_frees = 0;
  uint64_t retries = 0;            // allocations that had to empty the cache
  uint64_t stream_waits = 0;       // waits of the host for a stream, likewise
  uint64_t out_of_memory = 0;      // allocations that failed
  std::vector<OwnerUsage> owners;  // largest first, then by label
  PooledFigures figures;

  // Returns the share of held blocks that was not requested, 0..1.
  double internal_fragmentation() const;
  // Returns the share of cached memory outside its largest block, 0..1.
  double external_fragmentation() const;
  // Returns every figure and count by PyTorch's flat names:
  // "allocated_bytes.all.peak", "num_alloc_retries", "num_ooms", ...
  std::vector<std::pair<std::string, uint64_t>> Named() const;
};

struct BlockFacts {
  uint64_t offset = 0;
  uint64_t bytes = 0;
  uint64_t requested_bytes = 0;  // 0 when free
  bool free = false;
  std::string owner;          // empty when free
  bool pending_free = false;  // given back, but still used by streams
};

struct SegmentFacts {
  uint64_t address = 0;
  uint64_t bytes = 0;
  std::vector<BlockFacts> blocks;  // by offset; they tile the segment
};

struct MemorySnapshot {
  std::vector<SegmentFacts> segments;  // mapped runs, by address
  std::vector<MemoryEvent> events;     // oldest first; empty when not recorded
};

}  // namespace gpupool::engine
