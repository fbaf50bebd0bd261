#include "engine/passes/fuse/fuse_epilogues.h"

#include <gmock/gmock.h>

#include "tests/engine/passes/pass_testing.h"

namespace gpupool::engine {
namespace {

using ::testing::ElementsAre;

class FuseEpiloguesTest : public testing::PassTest {
 protected:
  ValueId Conv(ValueId x, const std::string& weight) {
    return Emit(Op::kConv2d, {x, Weight(weight, {2, 2, 1, 1})},
                Conv2dAttributes{});
  }
  const Epilogue& ConvEpilogue(size_t node) {
    return graph_.nodes()[node].get<Conv2dAttributes>().epilogue;
  }
};

TEST_F(FuseEpiloguesTest, ResidualThenActivation) {
  const ValueId x = Input("x", {1, 2, 3, 3});
  const ValueId sum = Emit(Op::kAdd, {x, Conv(x, "w")});
  graph_.AddOutput("out", Emit(Op::kRelu, {sum}));
  Run(FuseEpilogues);
  EXPECT_THAT(Ops(), ElementsAre("conv2d"));
  EXPECT_TRUE(ConvEpilogue(0).residual);
  EXPECT_EQ(ConvEpilogue(0).activation, Activation::kRelu);
  EXPECT_EQ(graph_.nodes()[0].inputs.back(), x);
}

TEST_F(FuseEpiloguesTest, AProductOfWeightsTakesNoResidualOfAStep) {
  builder_.SetStage(Stage::kLoad);
  const ValueId product =
      Emit(Op::kMatMul, {Weight("a", {2, 2}), Weight("b", {2, 2})},
           MatMulAttributes{});
  builder_.SetStage(Stage::kStep);
  graph_.AddOutput("out", Emit(Op::kAdd, {product, Input("x", {2, 2})}));
  Run(FuseEpilogues);
  EXPECT_THAT(Ops(), ElementsAre("matmul", "add"));
}

TEST_F(FuseEpiloguesTest, EveryActivationHasItsForm) {
  const std::tuple<Op, Attributes, Activation> forms[] = {
      {Op::kRelu, {}, Activation::kRelu},
      {Op::kGelu, GeluAttributes{false}, Activation::kGelu},
      {Op::kGelu, GeluAttributes{true}, Activation::kGeluTanh},
      {Op::kSigmoid, {}, Activation::kSigmoid},
      {Op::kTanh, {}, Activation::kTanh},
      {Op::kUnary, UnaryAttributes{UnaryFunction::kClip, 0, 6},
       Activation::kUnary},
      {Op::kUnary, UnaryAttributes{UnaryFunction::kHardSwish},
       Activation::kUnary},
      {Op::kUnary, UnaryAttributes{UnaryFunction::kSilu}, Activation::kUnary},
      {Op::kUnary, UnaryAttributes{UnaryFunction::kLeakyRelu, 0.1, 0},
       Activation::kUnary}};
  for (const auto& [op, attributes, activation] : forms) {
    graph_ = Graph();
    builder_ = GraphBuilder(&graph_);
    const ValueId y =
        Emit(Op::kMatMul, {Input("x", {2, 2}), Weight("w", {2, 2})},
             MatMulAttributes{});
    graph_.AddOutput("out", Emit(op, {y}, attributes));
    Run(FuseEpilogues);
    EXPECT_THAT(Ops(), ElementsAre("matmul"));
    const auto& epilogue = graph_.nodes()[0].get<MatMulAttributes>().epilogue;
    EXPECT_EQ(epilogue.activation, activation);
    if (op == Op::kUnary) {
      EXPECT_EQ(Attributes(epilogue.unary), attributes);
    }
  }
}

TEST_F(FuseEpiloguesTest, AnActivatedProductTakesNoResidual) {
  const ValueId x = Input("x", {1, 2, 3, 3});
  const ValueId y = Emit(Op::kRelu, {Conv(x, "w")});
  graph_.AddOutput("out", Emit(Op::kAdd, {y, x}));
  Run(FuseEpilogues);
  EXPECT_THAT(Ops(), ElementsAre("conv2d", "add"));
}

TEST_F(FuseEpiloguesTest, OnlyOneOfTwoProductsTakesTheOther) {
  const ValueId x = Input("x", {1, 2, 3, 3});
  const ValueId a = Conv(x, "a");
  const ValueId b = Conv(x, "b");
  graph_.AddOutput("out", Emit(Op::kAdd, {a, b}));
  Run(FuseEpilogues);
  EXPECT_THAT(Ops(), ElementsAre("conv2d", "conv2d"));
  EXPECT_FALSE(ConvEpilogue(0).residual);
  EXPECT_TRUE(ConvEpilogue(1).residual);
}

TEST_F(FuseEpiloguesTest, AResultThatIsReadTwiceOrIsAnOutputStays) {
  const ValueId x = Input("x", {1, 2, 3, 3});
  const ValueId y = Conv(x, "w");
  graph_.AddOutput("out", Emit(Op::kRelu, {y}));
  graph_.AddOutput("before", y);
  Run(FuseEpilogues);
  EXPECT_THAT(Ops(), ElementsAre("conv2d", "relu"));
}

TEST_F(FuseEpiloguesTest, DoesNotMoveAReadBehindAnUpdate) {
  const ValueId x = Input("x", {1, 2, 3, 3});
  const ValueId w = Weight("w", {2, 2, 1, 1});
  const ValueId y = Emit(Op::kConv2d, {x, w}, Conv2dAttributes{});
  ASSERT_TRUE(builder_.Update(Emit(Op::kAdd, {w, w}), w).ok());
  graph_.AddOutput("out", Emit(Op::kRelu, {y}));
  Run(FuseEpilogues);
  EXPECT_THAT(Ops(), ElementsAre("conv2d", "add", "relu"));
}

}  // namespace
}  // namespace gpupool::engine
