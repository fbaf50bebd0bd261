#include "engine/passes/fuse/fuse_elementwise.h"

#include <gmock/gmock.h>

#include "tests/engine/passes/pass_testing.h"

namespace gpupool::engine {
namespace {

using ::testing::ElementsAre;

class FuseElementwiseTest : public testing::PassTest {
 protected:
  ValueId Sine(ValueId x) {
    return Emit(Op::kUnary, {x}, UnaryAttributes{UnaryFunction::kSin});
  }
  ValueId Product(ValueId a, ValueId b) {
    return Emit(Op::kBinary, {a, b},
                BinaryAttributes{BinaryFunction::kMultiply});
  }
  ValueId Softmax(ValueId x) { return Emit(Op::kSoftmax, {x}); }
};

TEST_F(FuseElementwiseTest, AChainIsOneNode) {
  const ValueId x = Input("x", {2, 3});
  const ValueId row = Input("row", {3});
  graph_.AddOutput("out", Emit(Op::kRelu, {Product(Sine(x), row)}));
  Run(FuseElementwise);
  ASSERT_THAT(Ops(), ElementsAre("fused"));
  const Node& node = graph_.nodes()[0];
  EXPECT_THAT(node.inputs, ElementsAre(x, row));
  const auto& fused = node.get<FusedAttributes>();
  EXPECT_EQ(fused.steps.size(), 3u);
  EXPECT_THAT(fused.steps[1].operands, ElementsAre(2, 1));
  EXPECT_THAT(fused.results, ElementsAre(4));
}

TEST_F(FuseElementwiseTest, ASingleNodeStaysWhatItIs) {
  graph_.AddOutput("out", Sine(Input("x", {2})));
  Run(FuseElementwise);
  EXPECT_THAT(Ops(), ElementsAre("unary"));
}

TEST_F(FuseElementwiseTest, WhatOthersReadBecomesAResultToo) {
  const ValueId y = Sine(Input("x", {2, 3}));
  graph_.AddOutput("y", y);
  graph_.AddOutput("z", Emit(Op::kRelu, {y}));
  Run(FuseElementwise);
  ASSERT_THAT(Ops(), ElementsAre("fused"));
  EXPECT_EQ(graph_.nodes()[0].outputs.size(), 2u);
}

// softmax reads y, and the sum reads softmax, so y must be computed before.
TEST_F(FuseElementwiseTest, NeverWaitsForItself) {
  const ValueId y = Sine(Input("x", {2, 3}));
  graph_.AddOutput("out", Emit(Op::kAdd, {y, Softmax(y)}));
  Run(FuseElementwise);
  EXPECT_THAT(Ops(), ElementsAre("unary", "softmax", "add"));
}

TEST_F(FuseElementwiseTest, DoesNotComputeANarrowValueForEveryColumn) {
  const ValueId narrow = Sine(Input("row", {2, 1}));
  graph_.AddOutput("out", Product(Sine(Input("x", {2, 3})), narrow));
  Run(FuseElementwise);
  EXPECT_THAT(Ops(), ElementsAre("unary", "fused"));
}

TEST_F(FuseElementwiseTest, TwoIslandsMeet) {
  const ValueId a = Sine(Input("a", {2, 3}));
  const ValueId b = Sine(Input("b", {2, 3}));
  graph_.AddOutput("out", Emit(Op::kAdd, {a, b}));
  Run(FuseElementwise);
  EXPECT_THAT(Ops(), ElementsAre("fused"));
}

// If it waited for the softmax, a and b would stay alive instead of their
// product.
TEST_F(FuseElementwiseTest, DoesNotKeepMoreAlive) {
  const ValueId a = Softmax(Input("a", {2, 3}));
  const ValueId b = Softmax(Input("b", {2, 3}));
  const ValueId product = Product(a, b);
  const ValueId other = Softmax(Input("c", {2, 3}));
  graph_.AddOutput("out", Emit(Op::kAdd, {product, other}));
  Run(FuseElementwise);
  EXPECT_THAT(Ops(),
              ElementsAre("softmax", "softmax", "binary", "softmax", "add"));
}

TEST_F(FuseElementwiseTest, LongChainsAreSeveralNodes) {
  ValueId y = Input("x", {2});
  for (size_t i = 0; i < kMaxFusedSteps + 2; ++i) y = Sine(y);
  graph_.AddOutput("out", y);
  Run(FuseElementwise);
  EXPECT_THAT(Ops(), ElementsAre("fused", "fused"));
}

TEST_F(FuseElementwiseTest, OtherTypesStayAlone) {
  const ValueId x = *builder_.Input("x", {DType::kInt64, {2}});
  const ValueId y = Product(Product(x, x), x);
  graph_.AddOutput("out", y);
  Run(FuseElementwise);
  EXPECT_THAT(Ops(), ElementsAre("binary", "binary"));
}

TEST_F(FuseElementwiseTest, DoesNotReadAWeightAfterItsUpdate) {
  const ValueId w = Weight("w", {2});
  const ValueId y = Product(Input("x", {2}), w);
  ASSERT_TRUE(builder_.Update(Emit(Op::kSoftmax, {w}), w).ok());
  graph_.AddOutput("out", Sine(y));
  Run(FuseElementwise);
  EXPECT_THAT(Ops(), ElementsAre("binary", "softmax", "unary"));
}

}  // namespace
}  // namespace gpupool::engine
