#include <gtest/gtest.h>

#include <limits>

#include "engine/graph/ops.h"
#include "tests/engine/graph/type_testing.h"

namespace gpupool::engine {
namespace {

TEST(FlopsTest, AMultiplyAddCountsTwo) {
  EXPECT_EQ(Flops(Op::kMatMul, MatMulAttributes{},
                  TensorTypes{F({2, 3}), F({3, 5})}, TensorTypes{F({2, 5})}),
            2u * 2 * 3 * 5);
  EXPECT_EQ(Flops(Op::kConv2d, Conv2dAttributes{},
                  TensorTypes{F({1, 2, 5, 5}), F({4, 2, 3, 3})},
                  TensorTypes{F({1, 4, 3, 3})}),
            2u * 4 * 9 * 2 * 9);
}

TEST(FlopsTest, TheEpilogueCountsOnePerElementAndPart) {
  const MatMulAttributes attributes{
      .epilogue = {.bias = true, .activation = Activation::kRelu}};
  EXPECT_EQ(
      Flops(Op::kMatMul, attributes, TensorTypes{F({2, 3}), F({3, 5}), F({5})},
            TensorTypes{F({2, 5})}),
      60u + 20);
}

TEST(FlopsTest, GradientsOfAConvolutionCostWhatTheConvolutionDoes) {
  const TensorTypes x{F({1, 2, 5, 5})};
  const TensorType w = F({4, 2, 3, 3});
  const TensorType y = F({1, 4, 3, 3});
  EXPECT_EQ(
      Flops(Op::kConv2dInputGrad, Conv2dGradAttributes{}, TensorTypes{y, w}, x),
      648u * 2);
  EXPECT_EQ(Flops(Op::kConv2dWeightGrad, Conv2dGradAttributes{},
                  TensorTypes{y, x[0]}, TensorTypes{w}),
            648u * 2);
}

TEST(FlopsTest, MovingBytesIsFree) {
  EXPECT_EQ(Flops(Op::kReshape, ShapeAttributes{{6}}, TensorTypes{F({2, 3})},
                  TensorTypes{F({6})}),
            0u);
}

TEST(FlopsTest, BroadcastingCountsTheElementsOfTheOutput) {
  EXPECT_EQ(Flops(Op::kBinary, BinaryAttributes{},
                  TensorTypes{F({2, 1}), F({3})}, TensorTypes{F({2, 3})}),
            6u);
  const FusedAttributes fused{
      {{Op::kAdd, {}, {0, 1}}, {Op::kGelu, GeluAttributes{}, {2}}},
      {3},
      {2, 3}};
  EXPECT_EQ(Flops(Op::kFused, fused, TensorTypes{F({2, 3}), F({})},
                  TensorTypes{F({2, 3})}),
            6u * (1 + 8));
}

TEST(FlopsTest, BatchedProductsCountEveryMatrix) {
  EXPECT_EQ(
      Flops(Op::kBatchMatMul,
            BatchMatMulAttributes{.transpose_a = true, .scale = 0.5},
            TensorTypes{F({4, 3, 2}), F({3, 5})}, TensorTypes{F({4, 2, 5})}),
      40u * (2 * 3 + 1));
}

// Two products forward, five backward.
TEST(FlopsTest, AttentionCountsItsProductsAndTheSoftmax) {
  const TensorType q = F({1, 2, 3, 4});
  const TensorType k = F({1, 2, 5, 4});
  const TensorType v = F({1, 2, 5, 6});
  const TensorType y = F({1, 2, 3, 6});
  const TensorType lse = F({1, 2, 3});
  EXPECT_EQ(Flops(Op::kAttention, AttentionAttributes{}, TensorTypes{q, k, v},
                  TensorTypes{y}),
            2u * 3 * 5 * (4 + 2 * (4 + 6)));
  EXPECT_EQ(Flops(Op::kAttentionGrad, AttentionAttributes{},
                  TensorTypes{y, q, k, v, y, lse}, TensorTypes{q, k, v}),
            2u * 3 * 5 * (4 + 2 * (3 * 4 + 2 * 6)));
}

TEST(FlopsTest, ResizingCostsOnePassPerAxis) {
  const ResizeAttributes resize{
      {{.axis = 1, .size = 8, .taps = 2}, {.axis = 0, .size = 6, .taps = 3}}};
  EXPECT_EQ(Flops(Op::kResize, resize, TensorTypes{F({2, 4})},
                  TensorTypes{F({6, 8})}),
            2u * 8 * 2 * 2 + 6u * 8 * 2 * 3);
  EXPECT_EQ(Flops(Op::kResizeGrad, ResizeGradAttributes{resize, {2, 4}},
                  TensorTypes{F({6, 8})}, TensorTypes{F({2, 4})}),
            2u * 8 * 2 * 2 + 6u * 8 * 2 * 3);
}

TEST(FlopsTest, AScatterCountsWhatItAdds) {
  const TensorTypes inputs{F({9}), {DType::kInt64, {4}}, F({4})};
  EXPECT_EQ(
      Flops(Op::kScatterElements, ScatterAttributes{}, inputs, {inputs[0]}),
      0u);
  EXPECT_EQ(Flops(Op::kScatterElements,
                  ScatterAttributes{.reduction = ScatterReduction::kAdd},
                  inputs, {inputs[0]}),
            4u);
}

TEST(FlopsTest, SaturatesInsteadOfWrapping) {
  const int64_t side = int64_t{1} << 24;
  EXPECT_EQ(Flops(Op::kMatMul, MatMulAttributes{},
                  TensorTypes{F({side, side}), F({side, side})},
                  TensorTypes{F({side, side})}),
            std::numeric_limits<uint64_t>::max());
}

}  // namespace
}  // namespace gpupool::engine
