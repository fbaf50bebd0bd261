#include <gmock/gmock.h>

#include "tests/engine/graph/type_testing.h"

namespace gpupool::engine {
namespace {

using ::testing::HasSubstr;

TensorType I32(const Shape& shape) { return {DType::kInt32, shape}; }

TEST(GatherTypeTest, TheIndicesShapeReplacesTheAxis) {
  EXPECT_EQ(Only(Op::kGather, AxisAttributes{1}, {F({2, 9, 4}), I64({3, 5})}),
            F({2, 3, 5, 4}));
  EXPECT_EQ(Only(Op::kGather, AxisAttributes{0}, {I64({7}), I32({})}), I64({}));
  EXPECT_EQ(Only(Op::kGather, AxisAttributes{0}, {F({7, 2}), I64(Empty({0}))}),
            F(Empty({0, 2})));
}

TEST(GatherTypeTest, RefusesWrongAxesIndicesAndTooManyDimensions) {
  EXPECT_THAT(Error(Op::kGather, AxisAttributes{2}, {F({2, 9}), I64({3})}),
              HasSubstr("axis 2"));
  EXPECT_THAT(Error(Op::kGather, AxisAttributes{0}, {F({}), I64({3})}),
              HasSubstr("0 dimensions"));
  EXPECT_THAT(Error(Op::kGather, AxisAttributes{0}, {F({2}), F({3})}),
              HasSubstr("int32 or int64"));
  EXPECT_THAT(Error(Op::kGather, AxisAttributes{0},
                    {F({2, 1, 1, 1, 1}), I64({3, 1, 1, 1, 1})}),
              HasSubstr("9 dimensions"));
}

TEST(GatherTypeTest, TheGradientHasTheInputsShape) {
  const GatherGradAttributes grad{.axis = 1, .input = Shape{2, 9}};
  EXPECT_EQ(Only(Op::kGatherGrad, grad, {F({2, 3}), I64({3})}), F({2, 9}));
  EXPECT_THAT(Error(Op::kGatherGrad, grad, {F({3, 3}), I64({3})}),
              HasSubstr("dy"));
  EXPECT_THAT(Error(Op::kGatherGrad, grad, {I64({2, 3}), I64({3})}),
              HasSubstr("floating"));
}

TEST(GatherElementsTypeTest, HasTheIndicesShape) {
  EXPECT_EQ(
      Only(Op::kGatherElements, AxisAttributes{0}, {F({2, 4}), I64({9, 3})}),
      F({9, 3}));
  EXPECT_THAT(
      Error(Op::kGatherElements, AxisAttributes{0}, {F({2, 4}), I64({2, 5})}),
      HasSubstr("in axis 1"));
  EXPECT_THAT(
      Error(Op::kGatherElements, AxisAttributes{0}, {F({2, 4}), I64({2})}),
      HasSubstr("2 dimensions"));
}

TEST(GatherNdTypeTest, TuplesPointAtCellsOrSlices) {
  const GatherNdAttributes none;
  EXPECT_EQ(Only(Op::kGatherNd, none, {F({2, 3, 4}), I64({5, 3})}), F({5}));
  EXPECT_EQ(Only(Op::kGatherNd, none, {F({2, 3, 4}), I64({6, 5, 1})}),
            F({6, 5, 3, 4}));
  EXPECT_EQ(Only(Op::kGatherNd, none, {F({2, 3}), I64({2})}), F({}));
  EXPECT_EQ(Only(Op::kGatherNd, GatherNdAttributes{1},
                 {F({2, 3, 4}), I64({2, 5, 1})}),
            F({2, 5, 4}));
}

TEST(GatherNdTypeTest, RefusesTuplesAndBatchAxesThatDoNotFit) {
  const GatherNdAttributes none;
  EXPECT_THAT(Error(Op::kGatherNd, none, {F({2, 3}), I64({5, 3})}),
              HasSubstr("1 to 2 entries"));
  EXPECT_THAT(Error(Op::kGatherNd, none, {F({2, 3}), I64(Empty({5, 0}))}),
              HasSubstr("tuples of 0"));
  EXPECT_THAT(Error(Op::kGatherNd, none, {F({2, 3}), I64({})}),
              HasSubstr("more than 0 dimensions"));
  EXPECT_THAT(
      Error(Op::kGatherNd, GatherNdAttributes{-1}, {F({2, 3}), I64({2, 1})}),
      HasSubstr("more than -1 dimensions"));
  EXPECT_THAT(
      Error(Op::kGatherNd, GatherNdAttributes{1}, {F({2, 3}), I64({3, 1})}),
      HasSubstr("batch axis 0"));
  EXPECT_THAT(
      Error(Op::kGatherNd, GatherNdAttributes{2}, {F({2, 3}), I64({2, 3})}),
      HasSubstr("more than 2 dimensions"));
}

TEST(TreeWalkTypeTest, GivesASlotForEachRowAndTree) {
  const TreeWalkAttributes walk{3};
  const TensorTypes good{F({5, 4}), I32({9}), F({9}),
                         I32({9}),  I32({9}), I32({2})};
  EXPECT_EQ(Only(Op::kTreeWalk, walk, good), I32({5, 2}));
  const auto error = [&](size_t i, const TensorType& type) {
    TensorTypes bad = good;
    bad[i] = type;
    return Error(Op::kTreeWalk, walk, bad);
  };
  EXPECT_THAT(error(0, I64({5, 4})), HasSubstr("floating"));
  EXPECT_THAT(error(1, I64({9})), HasSubstr("columns must be int32"));
  EXPECT_THAT(error(2, F({8})), HasSubstr("thresholds"));
  EXPECT_THAT(error(3, I32({8})), HasSubstr("larger"));
  EXPECT_THAT(error(4, I32({8})), HasSubstr("smaller"));
  EXPECT_THAT(error(5, I32({2, 1})), HasSubstr("roots must be int32"));
  EXPECT_THAT(Error(Op::kTreeWalk, TreeWalkAttributes{-1}, good),
              HasSubstr("levels"));
}

TEST(ScatterTypeTest, UpdatesFitTheIndices) {
  EXPECT_EQ(Only(Op::kScatterElements, ScatterAttributes{.axis = 1},
                 {F({2, 4}), I64({2, 9}), F({2, 9})}),
            F({2, 4}));
  EXPECT_THAT(Error(Op::kScatterElements, ScatterAttributes{.axis = 1},
                    {F({2, 4}), I64({2, 3}), F({2, 4})}),
              HasSubstr("updates"));
  EXPECT_EQ(Only(Op::kScatterNd, ScatterAttributes{},
                 {F({2, 4, 3}), I64({5, 2}), F({5, 3})}),
            F({2, 4, 3}));
  EXPECT_THAT(Error(Op::kScatterNd, ScatterAttributes{},
                    {F({2, 4, 3}), I64({5, 2}), I64({5, 3})}),
              HasSubstr("updates"));
}

TEST(ScatterTypeTest, ReductionsNeedNumbers) {
  const TensorType b{DType::kBool, {4}};
  ScatterAttributes scatter;
  EXPECT_EQ(Only(Op::kScatterElements, scatter, {b, I64({4}), b}), b);
  scatter.reduction = ScatterReduction::kAdd;
  EXPECT_THAT(Error(Op::kScatterElements, scatter, {b, I64({4}), b}),
              HasSubstr("needs numbers"));
}

}  // namespace
}  // namespace gpupool::engine
