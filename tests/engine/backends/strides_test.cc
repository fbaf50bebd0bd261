#include "engine/backends/strides.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpupool::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

Value Of(const Shape& shape, Layout layout = Layout::kRowMajor) {
  Value value;
  value.shape = shape;
  value.layout = layout;
  return value;
}

TEST(StridesTest, FollowTheLayout) {
  EXPECT_THAT(MemoryStrides({2, 3, 4, 5}, Layout::kRowMajor),
              ElementsAre(60, 20, 5, 1));
  EXPECT_THAT(MemoryStrides({2, 3, 4, 5}, Layout::kChannelsLast),
              ElementsAre(60, 1, 15, 3));
  EXPECT_THAT(MemoryOrder(4, Layout::kChannelsLast), ElementsAre(0, 2, 3, 1));
}

TEST(StridesTest, CollapseMergesWhatAllWalkThroughAsOne) {
  const Value x = Of({2, 3, 4}), y = Of({2, 3, 4});
  LoopNest same = BroadcastLoops({&x}, y);
  same.Collapse();
  EXPECT_THAT(same.sizes, ElementsAre(24));
  const Value row = Of({3, 4});
  LoopNest repeated = BroadcastLoops({&row}, y);
  repeated.Collapse();
  EXPECT_THAT(repeated.sizes, ElementsAre(2, 12));
  EXPECT_THAT(repeated.strides[0], ElementsAre(0, 1));
  EXPECT_EQ(repeated.count(), 24);
}

TEST(StridesTest, CollapseDropsLoopsOfOne) {
  const Value x = Of({1, 1}), y = Of({1, 1});
  LoopNest loops = BroadcastLoops({&x}, y);
  loops.Collapse();
  EXPECT_THAT(loops.sizes, IsEmpty());
  EXPECT_EQ(loops.count(), 1);
}

TEST(StridesTest, ChannelsAreTheInnermostLoopOfChannelsLast) {
  const Value bias = Of({1, 3, 1, 1});
  const Value y = Of({2, 3, 4, 5}, Layout::kChannelsLast);
  LoopNest loops = BroadcastLoops({&bias}, y);
  loops.Collapse();
  EXPECT_THAT(loops.sizes, ElementsAre(40, 3));
  EXPECT_THAT(loops.strides[0], ElementsAre(0, 1));
}

}  // namespace
}  // namespace gpupool::engine
