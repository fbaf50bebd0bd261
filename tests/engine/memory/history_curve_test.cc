#include "engine/memory/history_curve.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "engine/memory/caching_allocator.h"
#include "engine/memory/host_page_source.h"

namespace gpupool::engine {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

class HistoryCurveTest : public ::testing::Test {
 protected:
  void Take(uint64_t bytes) {
    auto taken = allocator_.Allocate(bytes, {"job 1", "weights"});
    ASSERT_TRUE(taken.ok()) << taken.status();
    held_.push_back(*std::move(taken));
  }
  MemoryStatistics Now() const { return allocator_.Statistics(); }
  std::vector<CurvePoint> Curve(size_t most = 1000) const {
    return HistoryCurve(allocator_.Snapshot(), most);
  }

  HostPageSource source_;
  CachingAllocator allocator_{"cpu:0", uint64_t{1} << 30, &source_};
  std::vector<Allocation> held_;
};

TEST_F(HistoryCurveTest, WithoutAHistoryThereIsNone) {
  Take(1000);
  EXPECT_THAT(Curve(), IsEmpty());
  ASSERT_TRUE(allocator_.RecordHistory(100).ok());
  EXPECT_THAT(Curve(), IsEmpty()) << "nothing has happened since";
}

TEST_F(HistoryCurveTest, BeginsBeforeTheFirstEventAndEndsNow) {
  Take(1000);
  const MemoryStatistics first = Now();
  ASSERT_TRUE(allocator_.RecordHistory(1000).ok());
  Take(uint64_t{100} << 20);
  const MemoryStatistics most = Now();
  held_.pop_back();
  allocator_.EmptyCache();
  const MemoryStatistics last = Now();
  const std::vector<CurvePoint> curve = Curve();
  ASSERT_GE(curve.size(), 4u);
  EXPECT_EQ(curve.front().allocated_bytes, first.allocated_bytes);
  EXPECT_EQ(curve.front().reserved_bytes, first.reserved_bytes);
  EXPECT_EQ(curve.back().allocated_bytes, last.allocated_bytes);
  EXPECT_EQ(curve.back().reserved_bytes, last.reserved_bytes);
  uint64_t allocated = 0, reserved = 0;
  int64_t time = 0;
  for (const CurvePoint& point : curve) {
    EXPECT_GE(point.end_time_us, time);
    time = point.end_time_us;
    allocated = std::max(allocated, point.allocated_bytes);
    reserved = std::max(reserved, point.reserved_bytes);
    EXPECT_LE(point.allocated_bytes, point.reserved_bytes);
  }
  EXPECT_EQ(allocated, most.allocated_bytes);
  EXPECT_EQ(reserved, most.reserved_bytes);
}

TEST_F(HistoryCurveTest, FewPointsKeepTheMostOfTheirIntervals) {
  ASSERT_TRUE(allocator_.RecordHistory(100'000).ok());
  for (int i = 0; i < 5000; ++i) {
    Take(i == 2500 ? uint64_t{1} << 22 : 1000);
    held_.clear();
  }
  for (const size_t most : {size_t{2}, size_t{7}, size_t{1000}}) {
    const std::vector<CurvePoint> curve = Curve(most);
    EXPECT_LE(curve.size(), most);
    EXPECT_GE(curve.size(), most / 2);
    uint64_t allocated = 0;
    for (const CurvePoint& point : curve) {
      allocated = std::max(allocated, point.allocated_bytes);
    }
    EXPECT_EQ(allocated, uint64_t{1} << 22);
  }
}

TEST_F(HistoryCurveTest, AHistoryThatForgetsBeginsLater) {
  ASSERT_TRUE(allocator_.RecordHistory(10).ok());
  for (int i = 0; i < 50; ++i) Take(6400);
  const std::vector<CurvePoint> curve = Curve();
  ASSERT_THAT(curve, SizeIs(11));
  EXPECT_EQ(curve.back().allocated_bytes, Now().allocated_bytes);
  uint64_t taken = 0;
  for (const MemoryEvent& event : allocator_.Snapshot().events) {
    if (event.action == MemoryAction::kAlloc) taken += event.bytes;
  }
  EXPECT_GT(taken, 0u);
  EXPECT_EQ(curve.front().allocated_bytes, Now().allocated_bytes - taken);
}

}  // namespace
}  // namespace gpupool::engine
