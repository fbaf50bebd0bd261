#include <gmock/gmock.h>

#include "engine/passes/simplify/simplify.h"
#include "tests/engine/passes/pass_testing.h"

namespace gpupool::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class SimplifyMovementTest : public testing::PassTest {
 protected:
  ValueId Transpose(ValueId x, std::vector<int> permutation) {
    return Emit(Op::kTranspose, {x}, TransposeAttributes{permutation});
  }
  ValueId Cast(ValueId x, DType dtype) {
    return Emit(Op::kCast, {x}, CastAttributes{dtype});
  }
  void Finish(ValueId y) {
    graph_.AddOutput("out", y);
    Run(Simplify);
  }
};

TEST_F(SimplifyMovementTest, ThereAndBackIsNothing) {
  ValueId y = Transpose(Input("x", {2, 3, 4}), {1, 2, 0});
  y = Transpose(y, {2, 0, 1});
  y = Emit(Op::kReshape, {y}, ShapeAttributes{Shape{6, 4}});
  Finish(Emit(Op::kReshape, {y}, ShapeAttributes{Shape{2, 3, 4}}));
  EXPECT_THAT(Ops(), IsEmpty());
}

TEST_F(SimplifyMovementTest, TwoTransposesAreOne) {
  ValueId y = Transpose(Input("x", {2, 3, 4}), {1, 0, 2});
  Finish(Transpose(y, {0, 2, 1}));
  ASSERT_THAT(Ops(), ElementsAre("transpose"));
  EXPECT_THAT(graph_.nodes()[0].get<TransposeAttributes>().permutation,
              ElementsAre(1, 2, 0));
}

TEST_F(SimplifyMovementTest, MovingAxesOfOneIsAReshape) {
  Finish(Transpose(Input("x", {2, 1, 4}), {1, 0, 2}));
  EXPECT_THAT(Ops(), ElementsAre("reshape"));
}

TEST_F(SimplifyMovementTest, WhatChangesNothingGoes) {
  ValueId y = Input("x", {2, 3});
  y = Emit(Op::kConcat, {y}, AxisAttributes{0});
  y = Emit(Op::kSlice, {y}, SliceAttributes{{0, 0}, {1, 1}, {2, 3}});
  y = Emit(Op::kPad, {y}, PadAttributes{{0, 0}, {0, 0}});
  y = Emit(Op::kBroadcast, {y}, ShapeAttributes{Shape{2, 3}});
  Finish(Cast(y, DType::kFloat32));
  EXPECT_THAT(Ops(), IsEmpty());
}

class ChannelShuffleTest : public SimplifyMovementTest {
 protected:
  // Returns x [2, 6, 3, 3] with its channels in two groups, mixed.
  ValueId Shuffle(ValueId x, std::vector<int> permutation = {0, 2, 1, 3, 4}) {
    x = Emit(Op::kReshape, {x}, ShapeAttributes{Shape{2, 2, 3, 3, 3}});
    return Emit(Op::kReshape, {Transpose(x, std::move(permutation))},
                ShapeAttributes{Shape{2, 6, 3, 3}});
  }
  ValueId Slice(ValueId x, std::vector<int64_t> starts,
                std::vector<int64_t> steps, std::vector<int64_t> sizes) {
    return Emit(Op::kSlice, {x}, SliceAttributes{starts, steps, sizes});
  }
  const std::vector<double>& ChosenBy(size_t node) {
    return graph_.value(graph_.nodes()[node].inputs[1]).constant;
  }
};

TEST_F(ChannelShuffleTest, IsAGatherOfChannels) {
  Finish(Shuffle(Input("x", {2, 6, 3, 3})));
  ASSERT_THAT(Ops(), ElementsAre("gather"));
  EXPECT_EQ(graph_.nodes()[0].get<AxisAttributes>().axis, 1);
  EXPECT_THAT(ChosenBy(0), ElementsAre(0, 3, 1, 4, 2, 5));
}

TEST_F(ChannelShuffleTest, OtherMovesStay) {
  Finish(Shuffle(Input("x", {2, 6, 3, 3}), {0, 2, 1, 4, 3}));
  EXPECT_THAT(Ops(), ElementsAre("reshape", "transpose", "reshape"));
}

TEST_F(ChannelShuffleTest, ASliceOfItChoosesFewerChannels) {
  const ValueId y = Shuffle(Input("x", {2, 6, 3, 3}));
  graph_.AddOutput("a", Slice(y, {0, 0, 0, 0}, {1, 1, 1, 1}, {2, 3, 3, 3}));
  Finish(Slice(y, {0, 5, 0, 0}, {1, -2, 1, 1}, {2, 3, 3, 3}));
  ASSERT_THAT(Ops(), ElementsAre("gather", "gather"));
  EXPECT_THAT(ChosenBy(0), ElementsAre(0, 3, 1));
  EXPECT_THAT(ChosenBy(1), ElementsAre(5, 4, 3));
}

TEST_F(ChannelShuffleTest, ASliceOfRowsAfterItStays) {
  const ValueId y = Shuffle(Input("x", {2, 6, 3, 3}));
  Finish(Slice(y, {0, 0, 1, 0}, {1, 1, 1, 1}, {2, 6, 2, 3}));
  EXPECT_THAT(Ops(), ElementsAre("gather", "slice"));
}

TEST_F(SimplifyMovementTest, ASliceBackwardsStays) {
  Finish(Emit(Op::kSlice, {Input("x", {3})}, SliceAttributes{{2}, {-1}, {3}}));
  EXPECT_THAT(Ops(), ElementsAre("slice"));
}

TEST_F(SimplifyMovementTest, OnlyExactCastsInBetweenGo) {
  const ValueId x = Input("x", {3});
  graph_.AddOutput("exact", Cast(Cast(x, DType::kFloat64), DType::kInt32));
  Finish(Cast(Cast(x, DType::kInt32), DType::kFloat32));
  EXPECT_THAT(Ops(), ElementsAre("cast", "cast", "cast"));
}

TEST_F(SimplifyMovementTest, AReductionOverAxesOfOneIsAReshape) {
  Finish(Emit(Op::kReduce, {Input("x", {2, 1, 3})},
              ReduceAttributes{ReduceFunction::kMean, {1}, false}));
  EXPECT_THAT(Ops(), ElementsAre("reshape"));
}

}  // namespace
}  // namespace gpupool::engine
