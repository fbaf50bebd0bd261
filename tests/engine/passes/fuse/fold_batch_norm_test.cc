#include "engine/passes/fuse/fold_batch_norm.h"

#include <gmock/gmock.h>

#include "tests/engine/passes/pass_testing.h"
#include "tests/engine/testing/graph_testing.h"

namespace gpupool::engine {
namespace {

using ::testing::ElementsAre;

class FoldBatchNormTest : public testing::PassTest {
 protected:
  ValueId Norm(ValueId x, int64_t channels) {
    return Emit(
        Op::kBatchNormInference,
        {x, Weight("gamma", {channels}), Weight("beta", {channels}),
         Weight("mean", {channels}), Weight("norm.running_var", {channels})},
        NormAttributes{});
  }

  // Checks that the pass keeps the output, with random weights and inputs.
  void RunAndCompare() {
    auto state = testing::RandomPersistents(graph_, 1);
    const auto inputs = testing::RandomInputs(graph_, 2);
    auto before = reference::Run(graph_, inputs, state);
    Run(FoldBatchNorm);
    auto after = reference::Run(graph_, inputs, state);
    ASSERT_TRUE(before.ok() && after.ok());
    EXPECT_LT(testing::Distance((*after)["out"], (*before)["out"]), 1e-12);
  }
};

TEST_F(FoldBatchNormTest, GoesIntoAConvolutionWithoutBias) {
  const ValueId x = Input("x", {1, 2, 4, 4});
  const ValueId y =
      Emit(Op::kConv2d, {x, Weight("w", {3, 2, 3, 3})}, Conv2dAttributes{});
  graph_.AddOutput("out", Norm(y, 3));
  RunAndCompare();
  EXPECT_THAT(Ops(), ElementsAre("fold_batch_norm", "conv2d"));
  EXPECT_EQ(graph_.nodes()[0].stage, Stage::kLoad);
  EXPECT_EQ(graph_.value(graph_.nodes()[1].inputs[1]).kind,
            ValueKind::kDerived);
}

TEST_F(FoldBatchNormTest, GoesIntoAMatMulWithBias) {
  const ValueId x = Input("x", {2, 4});
  const ValueId y =
      Emit(Op::kMatMul, {x, Weight("w", {3, 4}), Weight("b", {3})},
           MatMulAttributes{.transpose_b = true, .epilogue = {.bias = true}});
  graph_.AddOutput("out", Norm(y, 3));
  RunAndCompare();
  EXPECT_THAT(Ops(), ElementsAre("fold_batch_norm", "matmul"));
}

TEST_F(FoldBatchNormTest, GoesIntoAMatMulWhoseColumnsAreTheChannels) {
  const ValueId y = Emit(Op::kMatMul, {Input("x", {2, 4}), Weight("w", {4, 3})},
                         MatMulAttributes{});
  graph_.AddOutput("out", Norm(y, 3));
  RunAndCompare();
  EXPECT_THAT(Ops(), ElementsAre("transpose", "fold_batch_norm", "matmul"));
  EXPECT_EQ(graph_.nodes()[0].stage, Stage::kLoad);
}

TEST_F(FoldBatchNormTest, ScaleAndShiftByChannelGoInAsWell) {
  ValueId y =
      Emit(Op::kConv2d, {Input("x", {1, 2, 4, 4}), Weight("w", {3, 2, 3, 3})},
           Conv2dAttributes{});
  y = Emit(Op::kBinary, {Weight("scale", {1, 3, 1, 1}), y},
           BinaryAttributes{BinaryFunction::kMultiply});
  y = Emit(Op::kBinary, {y, Weight("shift", {3, 1, 1})}, BinaryAttributes{});
  graph_.AddOutput("out", y);
  RunAndCompare();
  EXPECT_EQ(Ops().back(), "conv2d");
  for (size_t i = 0; i + 1 < graph_.nodes().size(); ++i) {
    EXPECT_EQ(graph_.nodes()[i].stage, Stage::kLoad);
  }
}

TEST_F(FoldBatchNormTest, BehindATransposedConvolutionASumIsLeft) {
  const ValueId y = Emit(
      Op::kConv2dInputGrad,
      {Input("x", {1, 2, 4, 4}), Weight("w", {2, 3, 2, 2})},
      Conv2dGradAttributes{.conv = {.stride = {2, 2}}, .result = {1, 3, 8, 8}});
  graph_.AddOutput("out", Norm(y, 3));
  RunAndCompare();
  EXPECT_THAT(Ops(), ElementsAre("transpose", "fold_batch_norm", "transpose",
                                 "reshape", "conv2d_input_grad", "binary"));
}

TEST_F(FoldBatchNormTest, BeforeAnActivationItIsAProductAndASum) {
  const ValueId x = Input("x", {2, 3, 4, 4});
  graph_.AddOutput("out", Emit(Op::kRelu, {Norm(x, 3)}));
  RunAndCompare();
  EXPECT_THAT(Ops(), ElementsAre("fold_batch_norm", "reshape", "reshape",
                                 "binary", "binary", "relu"));
}

TEST_F(FoldBatchNormTest, AScaleByExampleStays) {
  ValueId y =
      Emit(Op::kConv2d, {Input("x", {3, 2, 4, 4}), Weight("w", {3, 2, 3, 3})},
           Conv2dAttributes{});
  y = Emit(Op::kBinary, {y, Weight("scale", {3, 1, 1, 1})},
           BinaryAttributes{BinaryFunction::kMultiply});
  graph_.AddOutput("out", y);
  RunAndCompare();
  EXPECT_THAT(Ops(), ElementsAre("conv2d", "binary"));
}

TEST_F(FoldBatchNormTest, StaysWhenTheProductIsReadElsewhere) {
  const ValueId x = Input("x", {1, 2, 4, 4});
  const ValueId y =
      Emit(Op::kConv2d, {x, Weight("w", {3, 2, 3, 3})}, Conv2dAttributes{});
  graph_.AddOutput("out", Emit(Op::kAdd, {Norm(y, 3), y}));
  RunAndCompare();
  EXPECT_THAT(Ops(), ElementsAre("fold_batch_norm", "reshape", "reshape",
                                 "conv2d", "binary", "binary", "add"));
  EXPECT_EQ(graph_.value(graph_.nodes()[3].inputs[1]).kind,
            ValueKind::kPersistent);
}

TEST_F(FoldBatchNormTest, StaysInGraphsThatUpdateWeights) {
  const ValueId x = Input("x", {1, 2, 4, 4});
  const ValueId w = Weight("w", {3, 2, 3, 3});
  const ValueId y = Emit(Op::kConv2d, {x, w}, Conv2dAttributes{});
  graph_.AddOutput("out", Norm(y, 3));
  ASSERT_TRUE(builder_.Update(Emit(Op::kAdd, {w, w}), w).ok());
  Run(FoldBatchNorm);
  EXPECT_THAT(Ops(), ElementsAre("conv2d", "batch_norm_inference", "add"));
}

TEST_F(FoldBatchNormTest, StaysBehindAnActivation) {
  const ValueId x = Input("x", {1, 2, 4, 4});
  const ValueId y =
      Emit(Op::kConv2d, {x, Weight("w", {3, 2, 3, 3})},
           Conv2dAttributes{.epilogue = {.activation = Activation::kRelu}});
  graph_.AddOutput("out", Norm(y, 3));
  RunAndCompare();
  EXPECT_THAT(Ops(), ElementsAre("conv2d", "batch_norm_inference"));
}

}  // namespace
}  // namespace gpupool::engine
