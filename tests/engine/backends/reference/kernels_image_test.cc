#include <gmock/gmock.h>

#include "tests/engine/backends/reference/one_op.h"

namespace gpupool::engine::reference {
namespace {

using ::testing::ElementsAre;

const Operand kImage = F({1, 1, 3, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9});

TEST(Conv2dKernelTest, IsCrossCorrelationNotConvolution) {
  EXPECT_THAT(RunOp(Op::kConv2d, Conv2dAttributes{},
                    {kImage, F({1, 1, 2, 2}, {1, 2, 3, 4})})[0],
              ElementsAre(37, 47, 67, 77));
}

TEST(Conv2dKernelTest, PaddingStrideAndDilation) {
  const Operand ones = F({1, 1, 2, 2}, {1, 1, 1, 1});
  EXPECT_THAT(
      RunOp(Op::kConv2d, Conv2dAttributes{.stride = {2, 2}, .padding = {1, 1}},
            {kImage, ones})[0],
      ElementsAre(1, 5, 11, 28));
  EXPECT_THAT(RunOp(Op::kConv2d, Conv2dAttributes{.dilation = {2, 2}},
                    {kImage, ones})[0],
              ElementsAre(1 + 3 + 7 + 9));
}

TEST(Conv2dKernelTest, GroupsSeeOnlyTheirChannels) {
  EXPECT_THAT(RunOp(Op::kConv2d, Conv2dAttributes{.groups = 2},
                    {F({1, 2, 1, 1}, {3, 5}), F({2, 1, 1, 1}, {10, 100})})[0],
              ElementsAre(30, 500));
}

TEST(Conv2dKernelTest, BiasResidualAndActivation) {
  const Conv2dAttributes attributes{
      .epilogue = {true, true, Activation::kRelu}};
  EXPECT_THAT(RunOp(Op::kConv2d, attributes,
                    {F({1, 1, 1, 2}, {1, -9}), F({1, 1, 1, 1}, {2}),
                     F({1}, {3}), F({1, 1, 1, 2}, {0.5, 1})})[0],
              ElementsAre(5.5, 0));
}

TEST(MaxPoolKernelTest, FirstMaximumWinsAndPaddingNeverDoes) {
  const Pool2dAttributes pool{.kernel = {2, 2},
                              .stride = {2, 2},
                              .padding = {1, 1},
                              .with_argmax = true};
  const auto y = RunOp(Op::kMaxPool, pool,
                       {F({1, 1, 3, 3}, {-1, -2, -2, -3, -5, -5, -3, -5, -5})});
  EXPECT_THAT(y[0], ElementsAre(-1, -2, -3, -5));
  EXPECT_THAT(y[1], ElementsAre(3, 2, 1, 0));
}

TEST(AvgPoolKernelTest, DividesByTheKernelOrByRealCells) {
  Pool2dAttributes pool{.kernel = {2, 2}, .stride = {2, 2}, .padding = {1, 1}};
  EXPECT_THAT(RunOp(Op::kAvgPool, pool, {kImage})[0],
              ElementsAre(0.25, 1.25, 2.75, 7));
  pool.exclude_padding = true;
  EXPECT_THAT(RunOp(Op::kAvgPool, pool, {kImage})[0],
              ElementsAre(1, 2.5, 5.5, 7));
}

TEST(GlobalAvgPoolKernelTest, IsTheMeanOfEachPlane) {
  EXPECT_THAT(
      RunOp(Op::kGlobalAvgPool, {}, {F({1, 2, 1, 2}, {1, 3, 10, 30})})[0],
      ElementsAre(2, 20));
}

}  // namespace
}  // namespace gpupool::engine::reference
