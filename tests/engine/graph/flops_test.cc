#include <gtest/gtest.h>

#include <limits>

#include "engine/graph/ops.h"

namespace gpupool::engine {
namespace {

TensorType F(const Shape& shape) { return {DType::kFloat32, shape}; }

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

TEST(FlopsTest, SaturatesInsteadOfWrapping) {
  const int64_t side = int64_t{1} << 24;
  EXPECT_EQ(Flops(Op::kMatMul, MatMulAttributes{},
                  TensorTypes{F({side, side}), F({side, side})},
                  TensorTypes{F({side, side})}),
            std::numeric_limits<uint64_t>::max());
}

}  // namespace
}  // namespace gpupool::engine
