#include <gmock/gmock.h>

#include "engine/passes/simplify/simplify.h"
#include "tests/engine/passes/pass_testing.h"

namespace gpupool::engine {
namespace {

using ::testing::ElementsAre;

class SimplifyProductsTest : public testing::PassTest {
 protected:
  ValueId Product(ValueId a, ValueId b) {
    return Emit(Op::kBatchMatMul, {a, b}, BatchMatMulAttributes{});
  }
  ValueId Transpose(ValueId x, std::vector<int> permutation) {
    return Emit(Op::kTranspose, {x}, TransposeAttributes{permutation});
  }
  ValueId Scale(ValueId x, double factor) {
    return Emit(Op::kBinary, {x, builder_.Constant(F({}), {factor})},
                BinaryAttributes{BinaryFunction::kMultiply});
  }
  ValueId Sum(ValueId a, ValueId b) {
    return Emit(Op::kBinary, {a, b}, BinaryAttributes{});
  }
  void Finish(ValueId y) {
    graph_.AddOutput("out", y);
    Run(Simplify);
  }
};

TEST_F(SimplifyProductsTest, WeightsOfRankTwoMakeAPlainProduct) {
  Finish(Product(Input("x", {2, 3, 4}), Weight("w", {4, 5})));
  EXPECT_THAT(Ops(), ElementsAre("reshape", "matmul", "reshape"));
}

TEST_F(SimplifyProductsTest, TransposesBecomeFlags) {
  const ValueId a = Transpose(Input("a", {2, 4, 3}), {0, 2, 1});
  const ValueId b = Transpose(Input("b", {2, 5, 4}), {0, 2, 1});
  Finish(Product(a, b));
  ASSERT_THAT(Ops(), ElementsAre("batch_matmul"));
  const auto& matmul = graph_.nodes()[0].get<BatchMatMulAttributes>();
  EXPECT_TRUE(matmul.transpose_a);
  EXPECT_TRUE(matmul.transpose_b);
}

TEST_F(SimplifyProductsTest, ScalesBecomeOneAttribute) {
  const ValueId a = Scale(Input("a", {2, 3, 4}), 2);
  const ValueId b = Transpose(Scale(Input("b", {2, 5, 4}), 3), {0, 2, 1});
  Finish(Scale(Product(a, b), 0.5));
  ASSERT_THAT(Ops(), ElementsAre("batch_matmul"));
  EXPECT_EQ(graph_.nodes()[0].get<BatchMatMulAttributes>().scale, 3);
}

TEST_F(SimplifyProductsTest, AScaledValueThatOthersReadStays) {
  const ValueId a = Scale(Input("a", {2, 3, 4}), 2);
  graph_.AddOutput("scaled", a);
  Finish(Product(a, Input("b", {2, 4, 5})));
  EXPECT_THAT(Ops(), ElementsAre("binary", "batch_matmul"));
}

TEST_F(SimplifyProductsTest, AnAddedRowIsABias) {
  const ValueId y = Emit(Op::kMatMul, {Input("x", {2, 4}), Weight("w", {4, 3})},
                         MatMulAttributes{});
  Finish(Sum(Weight("b", {3}), y));
  ASSERT_THAT(Ops(), ElementsAre("matmul"));
  EXPECT_TRUE(graph_.nodes()[0].get<MatMulAttributes>().epilogue.bias);
}

TEST_F(SimplifyProductsTest, AColumnIsNoBias) {
  const ValueId y = Emit(Op::kMatMul, {Input("x", {3, 4}), Weight("w", {4, 3})},
                         MatMulAttributes{});
  Finish(Sum(y, Weight("b", {3, 1})));
  EXPECT_THAT(Ops(), ElementsAre("matmul", "binary"));
}

TEST_F(SimplifyProductsTest, ANumberPerChannelIsTheBiasOfAConvolution) {
  const ValueId y =
      Emit(Op::kConv2d, {Input("x", {2, 3, 5, 5}), Weight("w", {4, 3, 1, 1})},
           Conv2dAttributes{});
  Finish(Sum(y, Weight("b", {1, 4, 1, 1})));
  ASSERT_THAT(Ops(), ElementsAre("reshape", "conv2d"));
  EXPECT_TRUE(graph_.nodes()[1].get<Conv2dAttributes>().epilogue.bias);
}

// x W1 + b1, ReLU, W2 + b2, + x: a block of a transformer.
TEST_F(SimplifyProductsTest, ABlockWorksOnTheRowsOfItsProducts) {
  const ValueId x = Input("x", {2, 3, 4});
  ValueId y = Sum(Product(x, Weight("w1", {4, 8})), Weight("b1", {8}));
  y = Emit(Op::kRelu, {y});
  y = Sum(Product(y, Weight("w2", {8, 4})), Weight("b2", {4}));
  Finish(Emit(Op::kAdd, {x, y}));
  EXPECT_THAT(Ops(), ElementsAre("reshape", "matmul", "relu", "matmul",
                                 "reshape", "add", "reshape"));
}

}  // namespace
}  // namespace gpupool::engine
