#include "engine/memory/pinned_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <map>
#include <random>
#include <thread>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "tests/engine/memory/byte_units.h"
#include "tests/engine/memory/simulated_timeline.h"

namespace gpupool::engine {
namespace {

using ::testing::HasSubstr;

// Counts what is allocated, and fails when a test says so.
class CountingSource : public PinnedSource {
 public:
  void FailNext() { fail_ = true; }
  uint64_t live_bytes() const { return live_bytes_; }
  uint64_t peak_bytes() const { return peak_bytes_; }
  uint64_t calls() const { return calls_; }

  absl::StatusOr<void*> Allocate(uint64_t bytes) override {
    absl::MutexLock lock(&mutex_);
    ++calls_;
    if (std::exchange(fail_, false)) {
      return absl::ResourceExhaustedError("the simulated host is full");
    }
    auto data = host_.Allocate(bytes);
    live_[*data] = bytes;
    live_bytes_ += bytes;
    peak_bytes_ = std::max(peak_bytes_, live_bytes_);
    return data;
  }
  void Free(void* data, uint64_t bytes) override {
    absl::MutexLock lock(&mutex_);
    ASSERT_EQ(live_[data], bytes);
    live_.erase(data);
    live_bytes_ -= bytes;
    host_.Free(data, bytes);
  }

 private:
  HostPinnedSource host_;
  absl::Mutex mutex_;
  std::map<void*, uint64_t> live_;
  bool fail_ = false;
  uint64_t live_bytes_ = 0;
  uint64_t peak_bytes_ = 0;
  uint64_t calls_ = 0;
};

class PinnedPoolTest : public ::testing::Test {
 protected:
  CountingSource source_;
  SimulatedTimeline timeline_;
  PinnedPool pool_{64 * kKiB, &source_, &timeline_};
};

TEST_F(PinnedPoolTest, RoundsUpToPowersOfTwoAndKeepsBlocks) {
  std::byte* data = nullptr;
  {
    auto block = pool_.Allocate(5000);
    ASSERT_TRUE(block.ok());
    EXPECT_EQ(block->bytes(), 5000u);
    data = block->data();
    std::memset(data, 1, 5000);
    EXPECT_EQ(pool_.Statistics().allocated_bytes.current, 8 * kKiB);
    EXPECT_EQ(pool_.Statistics().requested_bytes.current, 5000u);
  }
  EXPECT_EQ(pool_.Allocate(8 * kKiB)->data(), data);
  EXPECT_EQ(source_.calls(), 1u);
  const PinnedStatistics statistics = pool_.Statistics();
  EXPECT_EQ(statistics.allocated_bytes.current, 0u);
  EXPECT_EQ(statistics.reserved_bytes.current, 8 * kKiB);
  EXPECT_EQ(statistics.allocation.allocated, 2u);
  EXPECT_EQ(statistics.segment.allocated, 1u);
}

TEST_F(PinnedPoolTest, SmallestBlockIsAPageAndNothingCostsNothing) {
  auto block = pool_.Allocate(1);
  EXPECT_EQ(pool_.Statistics().allocated_bytes.current, kSmallestPinnedBytes);
  EXPECT_EQ(pool_.Allocate(0)->data(), nullptr);
  EXPECT_EQ(source_.calls(), 1u);
}

TEST_F(PinnedPoolTest, BlockWaitsForTheStreamsThatUseIt) {
  auto block = pool_.Allocate(4 * kKiB);
  std::byte* const data = block->data();
  block->ResetAfter({{1, 10}, {2, 20}});
  auto other = pool_.Allocate(4 * kKiB);
  EXPECT_NE(other->data(), data);
  timeline_.Pass({1, 10});
  EXPECT_NE(pool_.Allocate(4 * kKiB)->data(), data);
  timeline_.Pass({2, 20});
  auto a = pool_.Allocate(4 * kKiB);
  auto b = pool_.Allocate(4 * kKiB);
  EXPECT_TRUE(a->data() == data || b->data() == data);
  EXPECT_EQ(source_.calls(), 3u);
}

TEST_F(PinnedPoolTest, UnpinsOtherSizesForTheCapAndNoMoreThanNeeded) {
  { auto large = pool_.Allocate(32 * kKiB); }
  {
    auto a = pool_.Allocate(8 * kKiB);
    auto b = pool_.Allocate(8 * kKiB);
  }
  auto block = pool_.Allocate(16 * kKiB);
  EXPECT_EQ(pool_.Statistics().reserved_bytes.current, 64 * kKiB);
  auto second = pool_.Allocate(16 * kKiB);
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(pool_.Statistics().reserved_bytes.current, 48 * kKiB);
  EXPECT_LE(source_.peak_bytes(), 64 * kKiB);
}

TEST_F(PinnedPoolTest, RefusesWhatPassesTheCapAndSaysWhatIsHeld) {
  auto held = pool_.Allocate(40 * kKiB);
  const auto refused = pool_.Allocate(1);
  EXPECT_TRUE(absl::IsResourceExhausted(refused.status()));
  EXPECT_THAT(std::string(refused.status().message()),
              HasSubstr("Cap 65536, pinned 65536, held 65536"));
  EXPECT_FALSE(pool_.Allocate(64 * kKiB + 1).ok());
  EXPECT_FALSE(pool_.Allocate(~uint64_t{0}).ok());
  EXPECT_EQ(pool_.Statistics().refused, 3u);
}

TEST_F(PinnedPoolTest, FailureOfTheSourceLeavesTheCountsAsTheyWere) {
  source_.FailNext();
  EXPECT_TRUE(absl::IsResourceExhausted(pool_.Allocate(100).status()));
  const PinnedStatistics statistics = pool_.Statistics();
  EXPECT_EQ(statistics.reserved_bytes.current, 0u);
  EXPECT_EQ(statistics.allocated_bytes.current, 0u);
  EXPECT_EQ(statistics.allocation.current, 0u);
  EXPECT_TRUE(pool_.Allocate(64 * kKiB).ok());
}

TEST_F(PinnedPoolTest, EmptyCacheUnpinsWhatNothingUses) {
  auto held = pool_.Allocate(4 * kKiB);
  pool_.Allocate(8 * kKiB)->ResetAfter({{1, 10}});
  { auto dropped = pool_.Allocate(16 * kKiB); }
  EXPECT_EQ(pool_.EmptyCache(), 16 * kKiB);
  timeline_.Pass({1, 10});
  EXPECT_EQ(pool_.EmptyCache(), 8 * kKiB);
  EXPECT_EQ(source_.live_bytes(), 4 * kKiB);
}

TEST(PinnedPoolEndTest, GivesEverythingBack) {
  CountingSource source;
  SimulatedTimeline timeline;
  {
    PinnedPool pool(1 << 20, &source, &timeline);
    { auto idle = pool.Allocate(5000); }
    pool.Allocate(50000)->ResetAfter({{1, 10}});
  }
  EXPECT_EQ(source.live_bytes(), 0u);
}

TEST_F(PinnedPoolTest, ThreadsStayBelowTheCap) {
  const uint32_t seed = 99;
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  std::atomic<int> served = 0;
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < 4; ++t) {
    threads.emplace_back([this, t, &served] {
      std::mt19937 random(seed + t);
      for (int i = 0; i < 500; ++i) {
        auto block = pool_.Allocate(1 + random() % (30 * kKiB));
        if (!block.ok()) continue;
        ++served;
        std::memset(block->data(), static_cast<int>(t), block->bytes());
        for (uint64_t at = 0; at < block->bytes(); at += 512) {
          ASSERT_EQ(block->data()[at], std::byte(t));
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(served, 0);
  EXPECT_LE(source_.peak_bytes(), 64 * kKiB);
  EXPECT_EQ(pool_.Statistics().allocated_bytes.current, 0u);
  EXPECT_EQ(pool_.Statistics().reserved_bytes.current, source_.live_bytes());
}

}  // namespace
}  // namespace gpupool::engine
