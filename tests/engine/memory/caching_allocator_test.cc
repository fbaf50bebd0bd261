#include "engine/memory/caching_allocator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "engine/base/align.h"
#include "tests/engine/memory/fault_segment_source.h"

namespace gpupool::engine {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kMiB = 1 << 20;
const Owner kWeights{"job 7", "weights"};
const Owner kArena{"job 7", "arena"};
const Owner kOther{"job 8", "weights"};

class CachingAllocatorTest : public ::testing::Test {
 protected:
  FaultSegmentSource source_;
};

// Invariants 1 to 4 of the header, and that the statistics add up.
void CheckInvariants(const CachingAllocator& allocator) {
  const MemoryStatistics statistics = allocator.Statistics();
  uint64_t reserved = 0, allocated = 0, requested = 0, owners = 0, used = 0;
  uint64_t largest_free = 0, end = 0;
  for (const SegmentFacts& segment : allocator.Snapshot().segments) {
    ASSERT_GE(segment.address, end);
    end = segment.address + segment.bytes;
    reserved += segment.bytes;
    uint64_t offset = 0;
    bool previous_free = false;
    for (const BlockFacts& block : segment.blocks) {
      ASSERT_EQ(block.offset, offset);
      ASSERT_GT(block.bytes, 0u);
      ASSERT_EQ(block.bytes % kAlignmentBytes, 0u);
      ASSERT_FALSE(previous_free && block.free);
      ASSERT_LE(block.requested_bytes, block.bytes);
      if (block.free) largest_free = std::max(largest_free, block.bytes);
      allocated += block.free ? 0 : block.bytes;
      requested += block.requested_bytes;
      used += block.free ? 0 : 1;
      previous_free = block.free;
      offset += block.bytes;
    }
    ASSERT_EQ(offset, segment.bytes);
  }
  for (const OwnerUsage& owner : statistics.owners) owners += owner.bytes;
  ASSERT_EQ(statistics.reserved_bytes, reserved);
  ASSERT_EQ(statistics.allocated_bytes, allocated);
  ASSERT_EQ(statistics.requested_bytes, requested);
  ASSERT_EQ(statistics.largest_free_bytes, largest_free);
  ASSERT_EQ(statistics.allocations - statistics.frees, used);
  ASSERT_EQ(owners, allocated);
  ASSERT_LE(allocated, statistics.limit_bytes);
  ASSERT_GE(statistics.peak_allocated_bytes, allocated);
  ASSERT_GE(statistics.peak_reserved_bytes, reserved);
}

TEST_F(CachingAllocatorTest, CountsWhatWasAskedAndWhatItTakes) {
  CachingAllocator allocator("cpu:0", 8 * kMiB, &source_);
  auto block = allocator.Allocate(100, kWeights);
  ASSERT_TRUE(block.ok());
  EXPECT_EQ(block->bytes(), 100u);
  std::memset(block->data(), 1, 100);
  const MemoryStatistics statistics = allocator.Statistics();
  EXPECT_EQ(statistics.requested_bytes, 100u);
  EXPECT_EQ(statistics.allocated_bytes, 128u);
  EXPECT_EQ(statistics.reserved_bytes, 2 * kMiB);
  ASSERT_EQ(statistics.owners.size(), 1u);
  EXPECT_EQ(statistics.owners[0].label, "job 7 / weights");
  CheckInvariants(allocator);
}

TEST_F(CachingAllocatorTest, GivesNothingForZeroBytes) {
  CachingAllocator allocator("cpu:0", kMiB, &source_);
  auto block = allocator.Allocate(0, kWeights);
  ASSERT_TRUE(block.ok());
  EXPECT_EQ(block->data(), nullptr);
  EXPECT_EQ(allocator.Statistics().allocations, 0u);
}

TEST_F(CachingAllocatorTest, KeepsFreedMemoryForTheNextRequest) {
  CachingAllocator allocator("cpu:0", 64 * kMiB, &source_);
  std::byte* first = allocator.Allocate(5 * kMiB, kArena)->data();
  EXPECT_EQ(allocator.Allocate(5 * kMiB, kArena)->data(), first);
  EXPECT_EQ(source_.calls(), 1u);
  EXPECT_EQ(allocator.Statistics().reserved_bytes, 5 * kMiB);
}

TEST_F(CachingAllocatorTest, EmptyCacheGivesBackOnlyUnusedSegments) {
  CachingAllocator allocator("cpu:0", 64 * kMiB, &source_);
  auto kept = allocator.Allocate(3 * kMiB, kArena);
  { auto dropped = allocator.Allocate(5 * kMiB, kArena); }
  EXPECT_EQ(allocator.EmptyCache(), 5 * kMiB);
  EXPECT_EQ(allocator.EmptyCache(), 0u);
  EXPECT_EQ(source_.live_bytes(), 3 * kMiB);
  CheckInvariants(allocator);
}

TEST_F(CachingAllocatorTest, TakesARequestOfExactlyTheLimitButNoByteMore) {
  CachingAllocator allocator("cpu:0", 4 * kMiB, &source_);
  EXPECT_TRUE(allocator.Allocate(4 * kMiB, kArena).ok());
  const auto refused = allocator.Allocate(4 * kMiB + 1, kArena);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(allocator.Statistics().out_of_memory, 1u);
}

TEST_F(CachingAllocatorTest, TakesSmallRequestsUpToALimitBelowASegment) {
  CachingAllocator allocator("cpu:0", 1024, &source_);
  auto a = allocator.Allocate(512, kWeights);
  auto b = allocator.Allocate(512, kArena);
  EXPECT_TRUE(a.ok() && b.ok());
  EXPECT_FALSE(allocator.Allocate(1, kOther).ok());
  EXPECT_EQ(allocator.Statistics().reserved_bytes, 1024u);
}

TEST_F(CachingAllocatorTest, NeverFailsWithinTheLimitForFragmentation) {
  CachingAllocator allocator("cpu:0", 8 * kMiB, &source_);
  std::vector<Allocation> blocks;
  for (int i = 0; i < 16; ++i) {
    blocks.push_back(*allocator.Allocate(kMiB / 2, kWeights));
  }
  for (int i = 0; i < 16; i += 2) blocks[i].Reset();
  EXPECT_TRUE(allocator.Allocate(4 * kMiB, kArena).ok());
  CheckInvariants(allocator);
}

TEST_F(CachingAllocatorTest, EmptiesTheCacheBeforeItPassesTheLimit) {
  CachingAllocator allocator("cpu:0", 10 * kMiB, &source_);
  { auto cached = allocator.Allocate(6 * kMiB, kArena); }
  auto block = allocator.Allocate(7 * kMiB, kArena);
  ASSERT_TRUE(block.ok());
  EXPECT_EQ(allocator.Statistics().retries, 1u);
  EXPECT_EQ(allocator.Statistics().reserved_bytes, 7 * kMiB);
}

TEST_F(CachingAllocatorTest, ErrorNamesHoldersLimitAndRemedy) {
  CachingAllocator allocator("cpu:1", 4 * kMiB, &source_);
  auto held = allocator.Allocate(3 * kMiB, kWeights);
  const auto refused = allocator.Allocate(2 * kMiB, kOther);
  const std::string text(refused.status().message());
  EXPECT_THAT(text,
              HasSubstr("cpu:1 has no 2097152 bytes for job 8 / weights"));
  EXPECT_THAT(text,
              HasSubstr("Limit 4194304, allocated 3145728, free 1048576"));
  EXPECT_THAT(text, HasSubstr("Held by job 7 / weights 3145728."));
  EXPECT_THAT(text, HasSubstr("smaller batch"));
}

TEST_F(CachingAllocatorTest, BoundsAHolder) {
  CachingAllocator allocator("cpu:0", 64 * kMiB, &source_);
  ASSERT_TRUE(allocator.SetHolderLimit("job 7", 2 * kMiB).ok());
  auto a = allocator.Allocate(kMiB, kWeights);
  auto b = allocator.Allocate(kMiB, kArena);
  EXPECT_TRUE(a.ok() && b.ok());
  const auto refused = allocator.Allocate(1, kArena);
  EXPECT_THAT(std::string(refused.status().message()),
              HasSubstr("the limit of job 7, 2097152 bytes"));
  EXPECT_TRUE(allocator.Allocate(kMiB, kOther).ok());
  EXPECT_EQ(allocator.SetHolderLimit("job 7", kMiB).code(),
            absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(allocator.SetHolderLimit("job 7", 0).ok());
  EXPECT_TRUE(allocator.Allocate(kMiB, kArena).ok());
}

TEST_F(CachingAllocatorTest, ForgottenHolderHasNoLimitAndNoPeak) {
  CachingAllocator allocator("cpu:0", 64 * kMiB, &source_);
  ASSERT_TRUE(allocator.SetHolderLimit("job 7", 2 * kMiB).ok());
  { auto block = allocator.Allocate(kMiB, kWeights); }
  EXPECT_EQ(allocator.HolderPeakBytes("job 7"), kMiB);
  allocator.ForgetHolder("job 7");
  EXPECT_EQ(allocator.HolderPeakBytes("job 7"), 0u);
  EXPECT_TRUE(allocator.Allocate(3 * kMiB, kWeights).ok());
}

TEST_F(CachingAllocatorTest, ResetPeakStartsFromThePresent) {
  CachingAllocator allocator("cpu:0", 64 * kMiB, &source_);
  auto kept = allocator.Allocate(kMiB, kWeights);
  { auto dropped = allocator.Allocate(9 * kMiB, kArena); }
  EXPECT_EQ(allocator.Statistics().peak_allocated_bytes, 10 * kMiB);
  allocator.EmptyCache();
  allocator.ResetPeak();
  EXPECT_EQ(allocator.Statistics().peak_allocated_bytes, kMiB);
  EXPECT_EQ(allocator.Statistics().peak_reserved_bytes, 2 * kMiB);
  EXPECT_EQ(allocator.HolderPeakBytes("job 7"), kMiB);
}

TEST_F(CachingAllocatorTest, FailedSourceIsAskedAgainAfterEmptyingTheCache) {
  CachingAllocator allocator("cpu:0", 64 * kMiB, &source_);
  source_.SetCapacity(10 * kMiB);
  { auto cached = allocator.Allocate(6 * kMiB, kArena); }
  EXPECT_TRUE(allocator.Allocate(8 * kMiB, kArena).ok());
  EXPECT_EQ(allocator.Statistics().retries, 1u);
  EXPECT_EQ(allocator.Statistics().out_of_memory, 0u);
}

TEST_F(CachingAllocatorTest, FailureOfTheSourceLeavesEverythingAsItWas) {
  for (uint64_t call = 0; call < 4; ++call) {
    FaultSegmentSource source;
    source.FailCall(call);
    CachingAllocator allocator("cpu:0", 64 * kMiB, &source);
    std::vector<Allocation> blocks;
    uint64_t failures = 0, held = 0;
    for (uint64_t i = 0; i < 4; ++i) {
      auto block = allocator.Allocate((i + 2) * kMiB, kArena);
      failures += block.ok() ? 0 : 1;
      held += block.ok() ? (i + 2) * kMiB : 0;
      if (block.ok()) blocks.push_back(*std::move(block));
    }
    EXPECT_EQ(failures, 1u);
    EXPECT_EQ(allocator.Statistics().allocated_bytes, held);
    EXPECT_EQ(allocator.Statistics().out_of_memory, 1u);
    CheckInvariants(allocator);
  }
}

TEST_F(CachingAllocatorTest, RefusesAByteCountThatWouldOverflow) {
  CachingAllocator allocator("cpu:0", ~uint64_t{0}, &source_);
  EXPECT_FALSE(allocator.Allocate(~uint64_t{0}, kArena).ok());
  EXPECT_FALSE(allocator.Allocate(~uint64_t{0} - 70, kArena).ok());
}

// One allocation with the number that is written all over it.
struct Marked {
  Allocation block;
  int mark = 0;
};

void Fill(Marked& marked) {
  std::memset(marked.block.data(), marked.mark, marked.block.bytes());
}
bool IsIntact(const Marked& marked) {
  for (uint64_t i = 0; i < marked.block.bytes(); ++i) {
    if (marked.block.data()[i] != std::byte(marked.mark)) return false;
  }
  return true;
}

TEST_F(CachingAllocatorTest, RandomTrafficKeepsTheInvariants) {
  const uint32_t seed = 20261121;
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  CachingAllocator allocator("cpu:0", 24 * kMiB, &source_);
  std::vector<Marked> live;
  uint64_t expected = 0;
  for (int i = 0; i < 1500; ++i) {
    const uint32_t action = random() % 16;
    if (action < 9 || live.empty()) {
      const uint64_t most = random() % 8 == 0 ? 4 * kMiB : 20000;
      Marked marked{{}, static_cast<int>(random() % 255)};
      auto block = allocator.Allocate(
          1 + random() % most, Owner{"job 1", std::to_string(random() % 3)});
      ASSERT_TRUE(block.ok() || expected + most > 23 * kMiB);
      if (!block.ok()) continue;
      marked.block = *std::move(block);
      expected += AlignUp(marked.block.bytes());
      Fill(marked);
      live.push_back(std::move(marked));
    } else if (action < 15) {
      std::swap(live[random() % live.size()], live.back());
      ASSERT_TRUE(IsIntact(live.back()));
      expected -= AlignUp(live.back().block.bytes());
      live.pop_back();
    } else {
      allocator.EmptyCache();
    }
    ASSERT_EQ(allocator.Statistics().allocated_bytes, expected);
    if (i % 50 == 0) CheckInvariants(allocator);
  }
  live.clear();
  CheckInvariants(allocator);
  allocator.EmptyCache();
  EXPECT_EQ(source_.live_bytes(), 0u);
}

TEST_F(CachingAllocatorTest, ServesSeveralThreads) {
  CachingAllocator allocator("cpu:0", 64 * kMiB, &source_);
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&allocator, t] {
      for (int i = 1; i <= 300; ++i) {
        auto block = allocator.Allocate(i * 100, {"job", std::to_string(t)});
        ASSERT_TRUE(block.ok());
        std::memset(block->data(), t, block->bytes());
        allocator.Statistics();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(allocator.Statistics().allocations, 900u);
  EXPECT_EQ(allocator.Statistics().allocated_bytes, 0u);
  CheckInvariants(allocator);
}

}  // namespace
}  // namespace gpupool::engine
