#include "engine/backends/cuda/streams/activity_times.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpupool::engine::cuda {
namespace {

TEST(ActivityTimesTest, ANodeLastsFromItsFirstWorkToItsLast) {
  ActivityTimes times;
  times.AddWork(12, 500, 700);
  times.AddCall(11, 4);
  times.AddCall(12, 4);
  times.AddWork(11, 100, 200);
  const auto found = times.Times();
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].node, 4);
  EXPECT_EQ(found[0].begin_nanos, 100);
  EXPECT_EQ(found[0].end_nanos, 700);
}

TEST(ActivityTimesTest, NodesStandInTheOrderOfTheirBeginnings) {
  ActivityTimes times;
  times.AddCall(1, 9);
  times.AddCall(2, 3);
  times.AddWork(1, 50, 60);
  times.AddWork(2, 10, 20);
  const auto found = times.Times();
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].node, 3);
  EXPECT_EQ(found[1].node, 9);
}

TEST(ActivityTimesTest, WorkOfNobodyIsLeftOut) {
  ActivityTimes times;
  times.AddCall(1, -1);
  times.AddWork(1, 1, 2);
  times.AddWork(7, 1, 2);
  EXPECT_TRUE(times.Times().empty());
}

}  // namespace
}  // namespace gpupool::engine::cuda
