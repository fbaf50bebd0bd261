#include "tests/engine/memory/allocator_invariants.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace gpupool::engine {
namespace {

struct Sums {
  uint64_t reserved = 0;
  uint64_t held = 0;
  uint64_t held_blocks = 0;
  uint64_t pending = 0;
  uint64_t free = 0;
  uint64_t free_blocks = 0;
  uint64_t requested = 0;
  uint64_t largest_free = 0;
};

void AddBlock(const BlockFacts& block, Sums& sums) {
  if (block.free) {
    sums.free += block.bytes;
    ++sums.free_blocks;
    sums.largest_free = std::max(sums.largest_free, block.bytes);
  } else if (block.pending_free) {
    sums.pending += block.bytes;
  } else {
    sums.held += block.bytes;
    ++sums.held_blocks;
    sums.requested += block.requested_bytes;
  }
}

void CheckSegment(const SegmentFacts& segment, Sums& sums) {
  uint64_t offset = 0;
  for (const BlockFacts& block : segment.blocks) {
    ASSERT_EQ(block.offset, offset);
    ASSERT_GT(block.bytes, 0u);
    ASSERT_EQ(block.bytes % kBlockUnitBytes, 0u);
    ASSERT_LE(block.requested_bytes, block.bytes);
    ASSERT_EQ(block.free || block.pending_free, block.owner.empty());
    AddBlock(block, sums);
    offset += block.bytes;
  }
  ASSERT_EQ(offset, segment.bytes);
  sums.reserved += segment.bytes;
}

void CheckFigures(const MemoryStatistics& statistics, const Sums& sums) {
  const MemoryFigures& all = statistics.figures[0];
  EXPECT_EQ(all.allocation.current, sums.held_blocks);
  EXPECT_EQ(all.requested_bytes.current, sums.requested);
  EXPECT_EQ(all.active_bytes.current, sums.held + sums.pending);
  EXPECT_EQ(all.inactive_split.current, sums.free_blocks);
  EXPECT_EQ(all.inactive_split_bytes.current, sums.free);
  EXPECT_EQ(all.reserved_bytes.current, sums.reserved);
  const MemoryFigures& small = statistics.figures[1];
  const MemoryFigures& large = statistics.figures[2];
  EXPECT_EQ(all.allocated_bytes.current,
            small.allocated_bytes.current + large.allocated_bytes.current);
  EXPECT_EQ(all.active_bytes.current,
            small.active_bytes.current + large.active_bytes.current);
  EXPECT_EQ(all.allocation.freed(), statistics.frees);
}

}  // namespace

void CheckInvariants(const CachingAllocator& allocator,
                     const SimulatedDriver& driver) {
  const MemoryStatistics statistics = allocator.Statistics();
  Sums sums;
  uint64_t end = 0;
  for (const SegmentFacts& segment : allocator.Snapshot().segments) {
    ASSERT_TRUE(end == 0 || segment.address > end) << "runs do not touch";
    end = segment.address + segment.bytes;
    ASSERT_TRUE(driver.IsMapped({segment.address, segment.bytes}));
    ASSERT_NO_FATAL_FAILURE(CheckSegment(segment, sums));
  }
  uint64_t owners = 0;
  for (const OwnerUsage& owner : statistics.owners) owners += owner.bytes;
  ASSERT_EQ(statistics.reserved_bytes, sums.reserved);
  ASSERT_EQ(statistics.held_block_bytes, sums.held);
  ASSERT_EQ(statistics.requested_bytes, sums.requested);
  ASSERT_EQ(statistics.largest_free_bytes, sums.largest_free);
  ASSERT_EQ(statistics.allocations - statistics.frees, sums.held_blocks);
  ASSERT_EQ(statistics.allocated_bytes, owners);
  ASSERT_LE(statistics.requested_bytes, statistics.allocated_bytes);
  ASSERT_LE(statistics.allocated_bytes, sums.held);
  ASSERT_LE(statistics.allocated_bytes, statistics.limit_bytes);
  ASSERT_LE(sums.reserved, driver.live_bytes());
  ASSERT_GE(statistics.peak_allocated_bytes, statistics.allocated_bytes);
  ASSERT_GE(statistics.peak_reserved_bytes, sums.reserved);
  CheckFigures(statistics, sums);
  EXPECT_TRUE(driver.violations().empty()) << driver.violations().front();
}

}  // namespace gpupool::engine
