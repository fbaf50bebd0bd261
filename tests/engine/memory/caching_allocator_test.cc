#include "engine/memory/caching_allocator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <thread>
#include <vector>

#include "engine/base/align.h"
#include "tests/engine/memory/allocator_invariants.h"
#include "tests/engine/memory/byte_units.h"
#include "tests/engine/memory/simulated_driver.h"

namespace gpupool::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const Owner kWeights{"job 7", "weights"};
const Owner kArena{"job 7", "arena"};
const Owner kOther{"job 8", "weights"};

// Returns options for real memory in pages of 64 KiB.
SimulatedDriverOptions SmallPages() {
  return {.chunk_sizes = {kMiB, 64 * kKiB}, .backed = true};
}

class CachingAllocatorTest : public ::testing::Test {
 protected:
  void Check(const CachingAllocator& allocator) {
    CheckInvariants(allocator, driver_);
  }

  SimulatedDriver driver_{SmallPages()};
};

TEST_F(CachingAllocatorTest, CountsWhatWasAskedAndWhatItTakes) {
  CachingAllocator allocator("cpu:0", 8 * kMiB, &driver_);
  auto block = allocator.Allocate(100, kWeights);
  ASSERT_TRUE(block.ok());
  EXPECT_EQ(block->bytes(), 100u);
  std::memset(block->data(), 1, 100);
  const MemoryStatistics statistics = allocator.Statistics();
  EXPECT_EQ(statistics.requested_bytes, 100u);
  EXPECT_EQ(statistics.allocated_bytes, 128u) << "what a plan counts";
  EXPECT_EQ(statistics.held_block_bytes, 256u);
  EXPECT_EQ(statistics.reserved_bytes, 64 * kKiB);
  ASSERT_EQ(statistics.owners.size(), 1u);
  EXPECT_EQ(statistics.owners[0].label, "job 7 / weights");
  Check(allocator);
}

TEST_F(CachingAllocatorTest, GivesNothingForZeroBytes) {
  CachingAllocator allocator("cpu:0", kMiB, &driver_);
  auto block = allocator.Allocate(0, kWeights);
  ASSERT_TRUE(block.ok());
  EXPECT_EQ(block->data(), nullptr);
  EXPECT_EQ(allocator.Statistics().allocations, 0u);
  EXPECT_EQ(driver_.calls(), 0u);
}

TEST_F(CachingAllocatorTest, KeepsFreedMemoryForTheNextRequest) {
  CachingAllocator allocator("cpu:0", 64 * kMiB, &driver_);
  std::byte* first = allocator.Allocate(5 * kMiB, kArena)->data();
  const uint64_t calls = driver_.calls();
  EXPECT_EQ(allocator.Allocate(5 * kMiB, kArena)->data(), first);
  EXPECT_EQ(driver_.calls(), calls);
  EXPECT_EQ(allocator.Statistics().reserved_bytes, 5 * kMiB);
}

TEST_F(CachingAllocatorTest, EmptyCacheUnmapsWholeChunksAnywhereInTheRange) {
  CachingAllocator allocator("cpu:0", 64 * kMiB, &driver_);
  auto low = allocator.Allocate(kMiB, kArena);
  auto middle = allocator.Allocate(5 * kMiB, kArena);
  auto high = allocator.Allocate(3 * kMiB + 100, kArena);
  middle->Reset();
  // The rest of the chunk in which `high` ends must stay.
  EXPECT_EQ(allocator.EmptyCache(), 5 * kMiB);
  EXPECT_EQ(allocator.EmptyCache(), 0u);
  EXPECT_EQ(driver_.live_bytes(), 4 * kMiB + 64 * kKiB);
  EXPECT_EQ(allocator.Snapshot().segments.size(), 2u);
  Check(allocator);
  // The hole is used again before the range grows.
  std::byte* const hole = low->data() + kMiB;
  EXPECT_EQ(allocator.Allocate(4 * kMiB, kArena)->data(), hole);
  Check(allocator);
}

TEST_F(CachingAllocatorTest, GrowsByWhatLacksBesideAFreeBlock) {
  CachingAllocator allocator("cpu:0", 64 * kMiB, &driver_);
  { auto block = allocator.Allocate(5 * kMiB, kArena); }
  auto block = allocator.Allocate(6 * kMiB, kArena);
  EXPECT_EQ(allocator.Statistics().reserved_bytes, 6 * kMiB);
  Check(allocator);
}

TEST_F(CachingAllocatorTest, TakesARequestOfExactlyTheLimitButNoByteMore) {
  CachingAllocator allocator("cpu:0", 4 * kMiB, &driver_);
  EXPECT_TRUE(allocator.Allocate(4 * kMiB, kArena).ok());
  const auto refused = allocator.Allocate(4 * kMiB + 1, kArena);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(allocator.Statistics().out_of_memory, 1u);
}

TEST_F(CachingAllocatorTest, TakesSmallRequestsUpToALimitBelowAPage) {
  CachingAllocator allocator("cpu:0", 640, &driver_);
  auto a = allocator.Allocate(512, kWeights);
  auto b = allocator.Allocate(128, kArena);
  EXPECT_TRUE(a.ok() && b.ok());
  EXPECT_FALSE(allocator.Allocate(1, kOther).ok());
  Check(allocator);
}

TEST_F(CachingAllocatorTest, NeverFailsWithinTheLimitForFragmentation) {
  CachingAllocator allocator("cpu:0", 8 * kMiB, &driver_);
  std::vector<Allocation> blocks;
  for (int i = 0; i < 16; ++i) {
    blocks.push_back(*allocator.Allocate(kMiB / 2, kWeights));
  }
  for (int i = 0; i < 16; i += 2) blocks[i].Reset();
  EXPECT_TRUE(allocator.Allocate(4 * kMiB, kArena).ok());
  EXPECT_LE(allocator.Statistics().peak_reserved_bytes, 8 * kMiB)
      << "the free halves moved";
  Check(allocator);
}

TEST_F(CachingAllocatorTest, FreePartsOfChunksInUseMayPassTheLimit) {
  SimulatedDriver driver({.chunk_sizes = {kMiB}, .backed = true});
  CachingAllocator allocator("cpu:0", 4 * kMiB, &driver);
  std::vector<Allocation> blocks;
  for (int i = 0; i < 8; ++i) {
    blocks.push_back(*allocator.Allocate(kMiB / 2, kWeights));
  }
  for (int i = 0; i < 8; i += 2) blocks[i].Reset();
  EXPECT_TRUE(allocator.Allocate(2 * kMiB, kArena).ok());
  EXPECT_EQ(allocator.Statistics().peak_reserved_bytes, 6 * kMiB);
  CheckInvariants(allocator, driver);
}

TEST_F(CachingAllocatorTest, EmptiesTheCacheBeforeItPassesTheLimit) {
  CachingAllocator allocator("cpu:0", 10 * kMiB, &driver_);
  auto low = allocator.Allocate(6 * kMiB, kArena);
  auto kept = allocator.Allocate(kMiB, kArena);
  low->Reset();
  auto block = allocator.Allocate(7 * kMiB, kArena);
  ASSERT_TRUE(block.ok());
  EXPECT_EQ(allocator.Statistics().retries, 1u);
  EXPECT_LE(allocator.Statistics().peak_reserved_bytes, 10 * kMiB);
  Check(allocator);
}

TEST_F(CachingAllocatorTest, ErrorSaysWhatThereIsAndWhatWouldHelp) {
  CachingAllocator allocator("cpu:1", 4 * kMiB, &driver_);
  auto held = allocator.Allocate(3 * kMiB, kWeights);
  const auto refused = allocator.Allocate(2 * kMiB, kOther);
  const std::string text(refused.status().message());
  EXPECT_THAT(text,
              HasSubstr("cpu:1 has no 2097152 bytes for job 8 / weights"));
  EXPECT_THAT(text,
              HasSubstr("Limit 4194304, allocated 3145728, free 1048576"));
  EXPECT_THAT(text, HasSubstr("Held by job 7 / weights 3145728."));
  EXPECT_THAT(text, HasSubstr("at most 1048576 bytes, 50 % of this"));
}

TEST_F(CachingAllocatorTest, BoundsAHolder) {
  CachingAllocator allocator("cpu:0", 64 * kMiB, &driver_);
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
  CachingAllocator allocator("cpu:0", 64 * kMiB, &driver_);
  ASSERT_TRUE(allocator.SetHolderLimit("job 7", 2 * kMiB).ok());
  { auto block = allocator.Allocate(kMiB, kWeights); }
  EXPECT_EQ(allocator.HolderPeakBytes("job 7"), kMiB);
  allocator.ForgetHolder("job 7");
  EXPECT_EQ(allocator.HolderPeakBytes("job 7"), 0u);
  EXPECT_TRUE(allocator.Allocate(3 * kMiB, kWeights).ok());
}

TEST_F(CachingAllocatorTest, ResetPeakStartsFromThePresent) {
  CachingAllocator allocator("cpu:0", 64 * kMiB, &driver_);
  auto kept = allocator.Allocate(kMiB, kWeights);
  { auto dropped = allocator.Allocate(9 * kMiB, kArena); }
  EXPECT_EQ(allocator.Statistics().peak_allocated_bytes, 10 * kMiB);
  allocator.EmptyCache();
  allocator.ResetPeak();
  EXPECT_EQ(allocator.Statistics().peak_allocated_bytes, kMiB);
  EXPECT_EQ(allocator.Statistics().peak_reserved_bytes, kMiB);
  EXPECT_EQ(allocator.HolderPeakBytes("job 7"), kMiB);
}

TEST_F(CachingAllocatorTest, FractionBoundsWhatIsAddedAndKeepsWhatIsHeld) {
  CachingAllocator allocator("cpu:0", 8 * kMiB, &driver_);
  auto held = allocator.Allocate(3 * kMiB, kArena);
  ASSERT_TRUE(allocator.SetFraction(0.25).ok());
  EXPECT_EQ(allocator.Statistics().limit_bytes, 2 * kMiB);
  EXPECT_FALSE(allocator.Allocate(1, kArena).ok());
  held->Reset();
  EXPECT_TRUE(allocator.Allocate(2 * kMiB, kArena).ok());
  EXPECT_FALSE(allocator.Allocate(2 * kMiB + 1, kArena).ok());
  ASSERT_TRUE(allocator.SetFraction(1).ok());
  EXPECT_TRUE(allocator.Allocate(8 * kMiB, kArena).ok());
  for (const double wrong : {0.0, -1.0, 1.5, std::nan("")}) {
    EXPECT_EQ(allocator.SetFraction(wrong).code(),
              absl::StatusCode::kInvalidArgument);
  }
}

TEST_F(CachingAllocatorTest, ChosenRequestFailsAndNoOther) {
  CachingAllocator allocator("cpu:0", 8 * kMiB, &driver_);
  allocator.FailNthAllocation(3);
  std::vector<bool> worked;
  for (int i = 0; i < 5; ++i) {
    worked.push_back(allocator.Allocate(100, kArena).ok());
  }
  EXPECT_THAT(worked, ElementsAre(true, true, false, true, true));
  allocator.FailNthAllocation(1);
  allocator.FailNthAllocation(0);
  EXPECT_TRUE(allocator.Allocate(100, kArena).ok());
  EXPECT_EQ(allocator.Statistics().out_of_memory, 1u);
}

TEST_F(CachingAllocatorTest, FullDeviceIsAskedAgainAfterEmptyingTheCache) {
  CachingAllocator allocator("cpu:0", 64 * kMiB, &driver_);
  driver_.SetCapacity(10 * kMiB);
  auto low = allocator.Allocate(6 * kMiB, kArena);
  auto kept = allocator.Allocate(kMiB, kArena);
  low->Reset();
  EXPECT_TRUE(allocator.Allocate(8 * kMiB, kArena).ok());
  EXPECT_EQ(allocator.Statistics().retries, 1u);
  EXPECT_EQ(allocator.Statistics().out_of_memory, 0u);
  Check(allocator);
}

TEST_F(CachingAllocatorTest, RefusesAByteCountThatWouldOverflow) {
  SimulatedDriver driver;
  CachingAllocator allocator("cpu:0", ~uint64_t{0}, &driver);
  EXPECT_FALSE(allocator.Allocate(~uint64_t{0}, kArena).ok());
  EXPECT_FALSE(allocator.Allocate(~uint64_t{0} - 70, kArena).ok());
  EXPECT_FALSE(allocator.Allocate(uint64_t{1} << 62, kArena).ok());
  EXPECT_TRUE(allocator.Allocate(100, kArena).ok());
}

TEST_F(CachingAllocatorTest, AnotherRangeIsReservedWhenOneIsFull) {
  SimulatedDriver driver({.chunk_sizes = {kMiB}});
  CachingAllocator allocator("cpu:0", 4 * kMiB, &driver);
  // Blocks of half a page each, so that every page of the range keeps one.
  std::vector<Allocation> kept;
  for (int round = 0; round < 3; ++round) {
    std::vector<Allocation> dropped;
    while (true) {
      auto one = allocator.Allocate(kMiB - 256, kArena);
      if (!one.ok()) break;
      auto two = allocator.Allocate(256, kWeights);
      if (!two.ok()) break;
      dropped.push_back(*std::move(one));
      kept.push_back(*std::move(two));
    }
    CheckInvariants(allocator, driver);
  }
  auto large = allocator.Allocate(3 * kMiB, kArena);
  ASSERT_TRUE(large.ok()) << large.status();
  CheckInvariants(allocator, driver);
}

// An allocation, and the number that is written to all of it.
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
  CachingAllocator allocator("cpu:0", 24 * kMiB, &driver_);
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
    if (i % 20 == 0) {
      ASSERT_NO_FATAL_FAILURE(Check(allocator));
    }
  }
  live.clear();
  Check(allocator);
  allocator.EmptyCache();
  EXPECT_EQ(driver_.live_bytes(), 0u);
}

TEST_F(CachingAllocatorTest, ServesSeveralThreads) {
  CachingAllocator allocator("cpu:0", 64 * kMiB, &driver_);
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
  Check(allocator);
}

TEST_F(CachingAllocatorTest, EverythingGoesBackAtTheEnd) {
  {
    CachingAllocator allocator("cpu:0", 64 * kMiB, &driver_);
    auto a = allocator.Allocate(3 * kMiB, kArena);
    auto b = allocator.Allocate(100, kArena);
    a->Reset();
  }
  EXPECT_EQ(driver_.open_objects(), 0u);
  EXPECT_TRUE(driver_.violations().empty());
}

}  // namespace
}  // namespace gpupool::engine
