// Reuse of memory between streams: which stream may get which memory, and when.
#include <gtest/gtest.h>

#include <random>
#include <thread>
#include <vector>

#include "engine/base/align.h"
#include "engine/memory/caching_allocator.h"
#include "tests/engine/memory/allocator_invariants.h"
#include "tests/engine/memory/byte_units.h"
#include "tests/engine/memory/simulated_driver.h"
#include "tests/engine/memory/simulated_timeline.h"

namespace gpupool::engine {
namespace {

constexpr uint64_t kLimit = 64 * kMiB;
const Owner kStreamOwner{"job 7", "activations"};

class AllocatorStreamsTest : public ::testing::Test {
 protected:
  absl::StatusOr<Allocation> Allocate(uint64_t bytes, StreamId stream,
                                      bool accept_wait = false) {
    return allocator_.Allocate(bytes, kStreamOwner,
                               {.stream = stream, .accept_wait = accept_wait});
  }
  // Allocates a block and gives it back as used up to `counter` of the stream.
  std::byte* Use(uint64_t bytes, const Moment& until) {
    auto block = Allocate(bytes, until.stream);
    std::byte* const data = block->data();
    block->ResetAfter({until});
    return data;
  }
  void Check() { CheckInvariants(allocator_, driver_); }

  SimulatedDriver driver_;
  SimulatedTimeline timeline_;
  CachingAllocator allocator_{"cuda:0", kLimit, &driver_, &timeline_};
};

TEST_F(AllocatorStreamsTest, SameStreamReusesAtOnce) {
  std::byte* const data = Use(4 * kMiB, {1, 10});
  auto again = Allocate(4 * kMiB, 1);
  EXPECT_EQ(again->data(), data);
  EXPECT_FALSE(again->wait().has_value()) << "the stream's order is enough";
  Check();
}

TEST_F(AllocatorStreamsTest, OtherStreamGetsOtherMemoryUntilTheCounterPassed) {
  std::byte* const data = Use(4 * kMiB, {1, 10});
  timeline_.Pass({1, 9});
  auto other = Allocate(4 * kMiB, 2);
  EXPECT_NE(other->data(), data);
  timeline_.Pass({1, 10});
  EXPECT_EQ(Allocate(4 * kMiB, 2)->data(), data);
  EXPECT_TRUE(timeline_.waits().empty());
  Check();
}

TEST_F(AllocatorStreamsTest, AcceptedWaitNamesTheMoment) {
  std::byte* const data = Use(4 * kMiB, {1, 10});
  auto other = Allocate(4 * kMiB, 2, true);
  EXPECT_EQ(other->data(), data);
  EXPECT_EQ(other->wait(), (Moment{1, 10}));
  // The block was not used after all, so the earlier use is still pending.
  other->Reset();
  auto elsewhere = Allocate(4 * kMiB, 3);
  EXPECT_NE(elsewhere->data(), data);
  // Stream 2 used it after its wait, so its own moment covers the earlier one.
  auto third = Allocate(4 * kMiB, 2, true);
  ASSERT_EQ(third->data(), data);
  third->ResetAfter({{2, 5}});
  timeline_.Pass({2, 5});
  EXPECT_EQ(Allocate(4 * kMiB, 4)->data(), data);
  Check();
}

TEST_F(AllocatorStreamsTest, BlockNotUsedAgainKeepsItsEarlierUse) {
  std::byte* const data = Use(4 * kMiB, {1, 10});
  // Reused on the same stream, which never reaches that point.
  Allocate(4 * kMiB, 1)->Reset();
  EXPECT_NE(Allocate(4 * kMiB, 2)->data(), data);
  Check();
}

TEST_F(AllocatorStreamsTest, UsesOnTwoStreamsMustBothPass) {
  auto block = Allocate(4 * kMiB, 1);
  std::byte* const data = block->data();
  block->ResetAfter({{1, 10}, {2, 20}, {1, 7}});
  const MemoryFigures all = allocator_.Statistics().figures[0];
  EXPECT_EQ(all.allocated_bytes.current, 0u);
  EXPECT_EQ(all.active_bytes.current, 4 * kMiB) << "nobody may have it";
  Check();
  // The first stream may not have it either, because the second may still
  // write.
  auto elsewhere = Allocate(4 * kMiB, 1);
  EXPECT_NE(elsewhere->data(), data);
  timeline_.Pass({2, 20});
  EXPECT_EQ(Allocate(4 * kMiB, 1)->data(), data)
      << "now it is ordered by stream 1 alone";
  EXPECT_EQ(allocator_.Statistics().figures[0].active.current, 1u);
  Check();
}

TEST_F(AllocatorStreamsTest, MomentsThatPassedCostNothing) {
  timeline_.Pass({1, 10});
  timeline_.Pass({2, 10});
  auto block = Allocate(4 * kMiB, 1);
  std::byte* const data = block->data();
  block->ResetAfter({{1, 10}, {2, 9}});
  EXPECT_EQ(Allocate(4 * kMiB, 3)->data(), data);
  Check();
}

TEST_F(AllocatorStreamsTest, NeighboursOfOneStreamMerge) {
  auto a = Allocate(4 * kMiB, 1);
  auto b = Allocate(4 * kMiB, 1);
  std::byte* const data = a->data();
  a->ResetAfter({{1, 10}});
  b->ResetAfter({{1, 11}});
  EXPECT_EQ(Allocate(8 * kMiB, 1)->data(), data);
  // The rest of a merged block waits for the later use.
  timeline_.Pass({1, 10});
  EXPECT_NE(Allocate(8 * kMiB, 2)->data(), data);
  Check();
}

TEST_F(AllocatorStreamsTest, FullDeviceWaitsForTheEarliestThatIsEnough) {
  driver_.SetCapacity(16 * kMiB);
  std::vector<Allocation> blocks;
  for (uint64_t i = 0; i < 4; ++i) {
    blocks.push_back(*Allocate(4 * kMiB, 1));
  }
  // Blocks are given back out of order. 4 MiB are free after 20, 8 MiB after
  // 30.
  blocks[3].ResetAfter({{1, 40}});
  blocks[0].ResetAfter({{1, 20}});
  blocks[1].ResetAfter({{1, 30}});
  EXPECT_TRUE(Allocate(8 * kMiB, 2).ok());
  EXPECT_EQ(timeline_.waits(), (std::vector<Moment>{{1, 30}}));
  EXPECT_EQ(allocator_.Statistics().stream_waits, 1u);
  EXPECT_EQ(allocator_.Statistics().out_of_memory, 0u);
  Check();
}

TEST_F(AllocatorStreamsTest, FullDeviceWaitsForTheStreamThatIsNearest) {
  driver_.SetCapacity(8 * kMiB);
  auto a = Allocate(4 * kMiB, 1);
  auto b = Allocate(4 * kMiB, 2);
  timeline_.Pass({2, 1000});
  a->ResetAfter({{1, 10}});
  b->ResetAfter({{2, 1003}});
  EXPECT_TRUE(Allocate(4 * kMiB, 3).ok());
  EXPECT_EQ(timeline_.waits(), (std::vector<Moment>{{2, 1003}}));
}

TEST_F(AllocatorStreamsTest, WaitsForSeveralStreamsWhenOneIsNotEnough) {
  driver_.SetCapacity(8 * kMiB);
  auto a = Allocate(4 * kMiB, 1);
  auto b = Allocate(4 * kMiB, 2);
  a->ResetAfter({{1, 10}});
  b->ResetAfter({{2, 10}});
  EXPECT_TRUE(Allocate(8 * kMiB, 3).ok());
  EXPECT_EQ(timeline_.waits().size(), 2u);
  Check();
}

TEST_F(AllocatorStreamsTest, WaitsRatherThanReserveMoreThanTheLimit) {
  Use(40 * kMiB, {1, 10});
  EXPECT_TRUE(Allocate(40 * kMiB, 2).ok());
  EXPECT_EQ(timeline_.waits(), (std::vector<Moment>{{1, 10}}));
  EXPECT_LE(allocator_.Statistics().peak_reserved_bytes, kLimit);
  Check();
}

TEST_F(AllocatorStreamsTest, LostDeviceEndsTheRequestThatWaits) {
  driver_.SetCapacity(4 * kMiB);
  Use(4 * kMiB, {1, 10});
  timeline_.Break();
  EXPECT_EQ(Allocate(4 * kMiB, 2).status().code(), absl::StatusCode::kInternal);
  Check();
}

TEST_F(AllocatorStreamsTest, EmptyCacheKeepsWhatStreamsUse) {
  Use(4 * kMiB, {1, 10});
  EXPECT_EQ(allocator_.EmptyCache(), 0u);
  timeline_.Pass({1, 10});
  EXPECT_EQ(allocator_.EmptyCache(), 4 * kMiB);
  Check();
}

// Records the last writers. Memory may be given to a stream only if the last
// use on every other stream has passed or is waited for.
class UseBook {
 public:
  struct Use {
    uint64_t begin, end;
    Moment until;
  };
  // Records that the block is used until then. Everything that its stream has
  // waited for is over by then.
  void Record(const Allocation& block, const std::vector<Moment>& uses) {
    const auto begin = reinterpret_cast<uint64_t>(block.data());
    const uint64_t end = begin + AlignUp(block.bytes(), kBlockUnitBytes);
    if (block.wait().has_value()) Cut(begin, end, *block.wait());
    for (const Moment& use : uses) uses_.push_back({begin, end, use});
  }
  void ExpectSafe(const Allocation& block, StreamId stream,
                  const SimulatedTimeline& timeline) const {
    const auto begin = reinterpret_cast<uint64_t>(block.data());
    for (const Use& use : uses_) {
      if (use.end <= begin || begin + block.bytes() <= use.begin) continue;
      if (use.until.stream == stream) continue;
      const bool passed =
          timeline.Completed(use.until.stream) >= use.until.counter;
      const bool waited = block.wait().has_value() &&
                          block.wait()->stream == use.until.stream &&
                          block.wait()->counter >= use.until.counter;
      ASSERT_TRUE(passed || waited)
          << "stream " << stream << " got what stream " << use.until.stream
          << " uses until " << use.until.counter;
    }
  }

 private:
  void Cut(uint64_t begin, uint64_t end, const Moment& over) {
    std::vector<Use> kept;
    for (const Use& use : uses_) {
      if (use.until.stream != over.stream || use.until.counter > over.counter ||
          use.end <= begin || end <= use.begin) {
        kept.push_back(use);
        continue;
      }
      if (use.begin < begin) kept.push_back({use.begin, begin, use.until});
      if (end < use.end) kept.push_back({end, use.end, use.until});
    }
    uses_ = std::move(kept);
  }

  std::vector<Use> uses_;
};

TEST_F(AllocatorStreamsTest, RandomStreamsNeverShareMemoryTooEarly) {
  const uint32_t seed = 20261122;
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  driver_.SetCapacity(48 * kMiB);
  std::vector<std::pair<StreamId, Allocation>> live;
  uint64_t counters[4] = {};
  UseBook book;
  for (int i = 0; i < 1200; ++i) {
    const StreamId stream = 1 + random() % 3;
    const uint32_t action = random() % 8;
    if (action < 4 || live.empty()) {
      const uint64_t most = random() % 4 == 0 ? 12 * kMiB : 200000;
      auto block = Allocate(1 + random() % most, stream, random() % 5 == 0);
      if (!block.ok()) {
        ASSERT_TRUE(absl::IsResourceExhausted(block.status()));
        continue;
      }
      ASSERT_NO_FATAL_FAILURE(book.ExpectSafe(*block, stream, timeline_));
      live.emplace_back(stream, *std::move(block));
    } else if (action < 7) {
      std::swap(live[random() % live.size()], live.back());
      auto& [used_by, block] = live.back();
      std::vector<Moment> uses = {{used_by, ++counters[used_by]}};
      if (random() % 3 == 0) uses.push_back({stream, ++counters[stream]});
      book.Record(block, uses);
      block.ResetAfter(uses);
      live.pop_back();
    } else {
      timeline_.Pass({stream, random() % (counters[stream] + 1)});
    }
    if (i % 25 == 0) {
      ASSERT_NO_FATAL_FAILURE(Check()) << "round " << i;
    }
  }
  live.clear();
  for (StreamId stream = 1; stream < 4; ++stream) {
    timeline_.Pass({stream, counters[stream]});
  }
  allocator_.EmptyCache();
  Check();
  EXPECT_EQ(driver_.live_bytes(), 0u);
}

TEST_F(AllocatorStreamsTest, ThreadsWaitWithoutTheLock) {
  // Sizes of whole chunks, so that only streams can prevent reuse.
  driver_.SetCapacity(16 * kMiB);
  std::vector<std::thread> threads;
  for (StreamId stream = 1; stream <= 3; ++stream) {
    threads.emplace_back([this, stream] {
      for (uint64_t i = 1; i <= 200; ++i) {
        auto block = Allocate((2 + 2 * (i % 2)) * kMiB, stream);
        ASSERT_TRUE(block.ok()) << block.status();
        block->ResetAfter({{stream, i}});
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(allocator_.Statistics().out_of_memory, 0u);
  Check();
}

}  // namespace
}  // namespace gpupool::engine
