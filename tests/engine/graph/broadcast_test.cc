#include "engine/graph/broadcast.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace gpupool::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Shape Maybe(std::initializer_list<int64_t> dims) {
  return *Shape::CreateMaybeEmpty(dims);
}

TEST(BroadcastTest, AlignsAtTheLastAxesAndRepeatsOnes) {
  EXPECT_EQ(*BroadcastShapes({2, 1, 3}, {4, 1}), (Shape{2, 4, 3}));
  EXPECT_EQ(*BroadcastShapes({4, 1}, {2, 1, 3}), (Shape{2, 4, 3}));
  EXPECT_EQ(*BroadcastShapes({}, {5}), (Shape{5}));
  EXPECT_EQ(*BroadcastShapes({}, {}), Shape());
}

TEST(BroadcastTest, AnEmptyAxisMeetsItselfOrOne) {
  EXPECT_EQ(*BroadcastShapes(Maybe({0, 3}), {1, 1}), Maybe({0, 3}));
  EXPECT_EQ(*BroadcastShapes(Maybe({0}), Maybe({0})), Maybe({0}));
  EXPECT_FALSE(BroadcastShapes(Maybe({0}), {2}).ok());
}

TEST(BroadcastTest, NamesShapesThatDoNotFit) {
  const auto shape = BroadcastShapes({2, 3}, {4, 3});
  EXPECT_EQ(shape.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(shape.status().message()),
              ::testing::AllOf(HasSubstr("[2, 3]"), HasSubstr("[4, 3]")));
}

TEST(BroadcastTest, RefusesTooManyElements) {
  const int64_t large = int64_t{1} << 40;
  EXPECT_FALSE(BroadcastShapes({large, 1}, {large}).ok());
}

TEST(BroadcastTest, BroadcastsToIsOneWay) {
  EXPECT_TRUE(BroadcastsTo({3}, {2, 3}));
  EXPECT_TRUE(BroadcastsTo({1, 3}, {2, 3}));
  EXPECT_TRUE(BroadcastsTo({1}, Maybe({0})));
  EXPECT_FALSE(BroadcastsTo({2, 3}, {3}));
  EXPECT_FALSE(BroadcastsTo({1, 3}, {3}));
  EXPECT_FALSE(BroadcastsTo({2}, {1}));
}

TEST(BroadcastTest, StridesAreZeroWhereTheSourceRepeats) {
  EXPECT_THAT(BroadcastStrides({2, 1, 3}, {5, 2, 4, 3}),
              ElementsAre(0, 3, 0, 1));
  EXPECT_THAT(BroadcastStrides({2, 3}, {2, 3}), ElementsAre(3, 1));
  EXPECT_THAT(BroadcastStrides({}, {2}), ElementsAre(0));
}

}  // namespace
}  // namespace gpupool::engine
