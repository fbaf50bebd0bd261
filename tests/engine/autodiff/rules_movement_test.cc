#include <gmock/gmock.h>

#include "tests/engine/autodiff/gradient_fixture.h"

namespace gpupool::engine {
namespace {

using ::testing::HasSubstr;

class MovementRuleTest : public GradientTest {
 protected:
  ValueId Indices(const Shape& shape, std::vector<double> numbers) {
    return builder_.Constant({DType::kInt64, shape}, std::move(numbers));
  }

  // Returns the error of differentiating a loss over `y`.
  std::string Error(ValueId y, ValueId with_respect_to) {
    const ValueId target = *builder_.Input("target", builder_.value(y).type());
    const ValueId loss =
        Emit(Op::kMeanSquaredError, {y, target}, LossAttributes{});
    const auto gradients = AddGradients(graph_, loss, {with_respect_to});
    EXPECT_EQ(gradients.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(gradients.status().message());
  }
};

TEST_F(MovementRuleTest, Transpose) {
  Check(Emit(Op::kTranspose, {Weight("x", {2, 3, 4})},
             TransposeAttributes{{2, 0, 1}}));
}

TEST_F(MovementRuleTest, SliceForwardsAndBackwards) {
  Check(Emit(Op::kSlice, {Weight("x", {5, 6})},
             SliceAttributes{{4, 1}, {-2, 3}, {3, 2}}));
}

TEST_F(MovementRuleTest, PadInAllModes) {
  for (PadMode mode : {PadMode::kConstant, PadMode::kReflect, PadMode::kEdge}) {
    Reset();
    Check(Emit(
        Op::kPad, {Weight("x", {3, 4})},
        PadAttributes{
            .before = {2, 0}, .after = {1, 3}, .mode = mode, .value = 0.5}));
  }
}

TEST_F(MovementRuleTest, ConcatOfDistinctValuesAndOfOneTwice) {
  const ValueId a = Weight("a", {2, 1, 3});
  const ValueId b = Weight("b", {2, 4, 3});
  Check(Emit(Op::kConcat, {a, b, a}, AxisAttributes{1}));
}

TEST_F(MovementRuleTest, GatherAddsWhatWasReadTwice) {
  const ValueId x = Weight("x", {2, 4, 3});
  Check(Emit(Op::kGather, {x, Indices({2, 2}, {1, -1, 1, 0})},
             AxisAttributes{1}));
}

TEST_F(MovementRuleTest, GatherWithAScalarDropsTheAxis) {
  Check(Emit(Op::kGather, {Weight("x", {3, 4}), Indices({}, {2})},
             AxisAttributes{0}));
}

TEST_F(MovementRuleTest, GatherElementsAddsWhatWasReadTwice) {
  const ValueId x = Weight("x", {3, 4});
  Check(Emit(Op::kGatherElements, {x, Indices({2, 3}, {0, 0, -1, 2, 0, 1})},
             AxisAttributes{0}));
}

TEST_F(MovementRuleTest, GatherNdOfCellsAndOfRows) {
  Check(Emit(Op::kGatherNd,
             {Weight("x", {3, 4}), Indices({3, 2}, {0, 1, 2, -1, 0, 1})},
             GatherNdAttributes{}));
  Reset();
  Check(Emit(Op::kGatherNd, {Weight("x", {3, 4}), Indices({2, 1}, {2, 2})},
             GatherNdAttributes{}));
}

TEST_F(MovementRuleTest, GatherNdWithBatchAxes) {
  Check(Emit(Op::kGatherNd,
             {Weight("x", {2, 3, 4}), Indices({2, 2, 1}, {0, 0, 2, 1})},
             GatherNdAttributes{.batch_dims = 1}));
  Reset();
  Check(
      Emit(Op::kGatherNd,
           {Weight("x", {2, 3, 4, 2}), Indices({2, 3, 1}, {0, 3, 1, -1, 2, 2})},
           GatherNdAttributes{.batch_dims = 2}));
}

TEST_F(MovementRuleTest, ScatterElementsThatReplacesAndThatAdds) {
  for (ScatterReduction reduction :
       {ScatterReduction::kNone, ScatterReduction::kAdd}) {
    Reset();
    const bool add = reduction == ScatterReduction::kAdd;
    const ValueId x = Weight("x", {3, 4});
    const ValueId updates = Weight("updates", {2, 3});
    const ValueId indices = Indices({2, 3}, {0, add ? 1.0 : 2.0, -1, 1, 1, 0});
    Check(Emit(Op::kScatterElements, {x, indices, updates},
               ScatterAttributes{.axis = 0, .reduction = reduction}));
  }
}

TEST_F(MovementRuleTest, ScatterNdThatReplacesAndThatAdds) {
  for (ScatterReduction reduction :
       {ScatterReduction::kNone, ScatterReduction::kAdd}) {
    Reset();
    const bool add = reduction == ScatterReduction::kAdd;
    const ValueId x = Weight("x", {3, 4});
    const ValueId updates = Weight("updates", {2, 4});
    const ValueId indices = Indices({2, 1}, {2, add ? 2.0 : 0.0});
    Check(Emit(Op::kScatterNd, {x, indices, updates},
               ScatterAttributes{.reduction = reduction}));
  }
}

TEST_F(MovementRuleTest, ScatterThatMultipliesHasNone) {
  const ValueId x = Weight("x", {3, 4});
  const ValueId y =
      Emit(Op::kScatterNd, {x, Indices({1, 1}, {2}), Weight("u", {1, 4})},
           ScatterAttributes{.reduction = ScatterReduction::kMultiply});
  EXPECT_THAT(Error(y, x), HasSubstr("multiplies"));
}

TEST_F(MovementRuleTest, TopKReachesTheChosenCells) {
  Check(Emit(Op::kTopK, {Weight("x", {3, 5, 2})},
             TopKAttributes{.axis = 1, .k = 2}));
  Reset();
  Check(Emit(Op::kTopK, {Weight("x", {4, 3})},
             TopKAttributes{.axis = 0, .k = 3, .largest = false}));
}

TEST_F(MovementRuleTest, ResizeAlongTwoAxes) {
  const ResizeAxis rows{.axis = 2,
                        .size = 3,
                        .taps = 2,
                        .indices = {0, 1, 1, 1, 0, 1},
                        .weights = {0.25, 0.75, 0.5, 0.5, 2, -1}};
  const ResizeAxis columns{.axis = 3,
                           .size = 5,
                           .taps = 1,
                           .indices = {0, 0, 2, 1, 2},
                           .weights = {1, 1, 1, 0, 0.5}};
  Check(Emit(Op::kResize, {Weight("x", {1, 2, 2, 3})},
             ResizeAttributes{{rows, columns}}));
}

}  // namespace
}  // namespace gpupool::engine
