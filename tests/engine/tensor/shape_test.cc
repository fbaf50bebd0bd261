#include "engine/tensor/shape.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace gpupool::engine {
namespace {

using ::testing::HasSubstr;

absl::StatusOr<Shape> Make(const std::vector<int64_t>& dims) {
  return Shape::Create(dims);
}

TEST(ShapeTest, CountsElementsAndBytes) {
  const Shape shape{2, 3, 4};
  EXPECT_EQ(shape.rank(), 3);
  EXPECT_EQ(shape.elements(), 24);
  EXPECT_EQ(shape.bytes(DType::kFloat32), 96u);
  EXPECT_EQ(shape.bytes(DType::kInt64), 192u);
  EXPECT_EQ(shape.ToString(), "[2, 3, 4]");
}

TEST(ShapeTest, AScalarHasOneElement) {
  EXPECT_EQ(Shape().elements(), 1);
  EXPECT_EQ(Shape().rank(), 0);
  EXPECT_EQ(Shape().ToString(), "[]");
}

TEST(ShapeTest, EqualityLooksAtRankToo) {
  EXPECT_EQ((Shape{2, 3}), (Shape{2, 3}));
  EXPECT_NE((Shape{6}), (Shape{2, 3}));
  EXPECT_NE((Shape{1}), Shape());
}

TEST(ShapeTest, RefusesDimensionsBelowOne) {
  EXPECT_THAT(Make({2, 0}).status().message(), HasSubstr("[2, 0]"));
  EXPECT_FALSE(Make({-1}).ok());
}

TEST(ShapeTest, RefusesTooManyElementsWithoutOverflow) {
  const int64_t huge = std::numeric_limits<int64_t>::max();
  EXPECT_FALSE(Make({huge}).ok());
  EXPECT_FALSE(Make({huge, huge}).ok());
  // 2^64 would wrap to zero.
  EXPECT_FALSE(Make({int64_t{1} << 32, int64_t{1} << 32}).ok());
  EXPECT_TRUE(Make({kMaxElements}).ok());
  EXPECT_THAT(Make({kMaxElements, 2}).status().message(),
              HasSubstr("too many elements"));
}

TEST(ShapeTest, RefusesTooManyDimensions) {
  EXPECT_TRUE(Make(std::vector<int64_t>(kMaxRank, 1)).ok());
  EXPECT_FALSE(Make(std::vector<int64_t>(kMaxRank + 1, 1)).ok());
}

TEST(ShapeDeathTest, AWrongLiteralIsOurOwnFault) {
  EXPECT_DEATH((Shape{0}), "check failed");
}

}  // namespace
}  // namespace gpupool::engine
