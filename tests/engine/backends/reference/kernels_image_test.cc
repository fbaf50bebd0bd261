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

TEST(Conv2dKernelTest, PadsEachSideByItself) {
  EXPECT_THAT(RunOp(Op::kConv2d, Conv2dAttributes{.padding = {{1, 0}, {0, 0}}},
                    {kImage, F({1, 1, 3, 3}, {0, 0, 0, 1, 0, 0, 0, 0, 0})})[0],
              ElementsAre(1, 4));
}

TEST(Conv2dKernelTest, VolumesHaveADepth) {
  const Operand volume = F({1, 1, 2, 1, 3}, {1, 2, 3, 10, 20, 30});
  const Conv2dAttributes conv{.stride = {1, 1, 1},
                              .padding = {{0, 0, 1}, {0, 0, 0}},
                              .dilation = {1, 2, 1}};
  // Kernel [depth 2, height 1, width 2]; the first output slice sees padding.
  EXPECT_THAT(
      RunOp(Op::kConv2d, conv, {volume, F({1, 1, 2, 1, 2}, {1, 2, 3, 4})})[0],
      ElementsAre(3 * 1 + 4 * 3, 1 + 2 * 3 + 30 + 4 * 30));
}

TEST(Conv2dInputGradKernelTest, IsTheTransposedConvolution) {
  const Conv2dGradAttributes up{.conv = {.stride = {1, 2}},
                                .result = {1, 2, 1, 6}};
  EXPECT_THAT(
      RunOp(Op::kConv2dInputGrad, up,
            {F({1, 1, 1, 3}, {1, 2, 3}), F({1, 2, 1, 2}, {1, 10, 5, 0})})[0],
      ElementsAre(1, 10, 2, 20, 3, 30, 5, 0, 10, 0, 15, 0));
}

TEST(MaxPoolKernelTest, DilationSkipsCells) {
  const Pool2dAttributes pool{
      .kernel = {2, 2}, .dilation = {2, 2}, .with_argmax = true};
  const auto y = RunOp(Op::kMaxPool, pool, {kImage});
  EXPECT_THAT(y[0], ElementsAre(9));
  EXPECT_THAT(y[1], ElementsAre(3));
}

TEST(AvgPoolKernelTest, WindowsBeyondThePaddingDivideByFewerCells) {
  Pool2dAttributes pool{.kernel = {2, 2},
                        .stride = {2, 2},
                        .padding = {{1, 0}, {0, 0}},
                        .ceil_mode = true};
  EXPECT_THAT(RunOp(Op::kAvgPool, pool, {kImage})[0],
              ElementsAre(0.75, 1.5, 6, 7.5));
  pool.exclude_padding = true;
  EXPECT_THAT(RunOp(Op::kAvgPool, pool, {kImage})[0],
              ElementsAre(1.5, 3, 6, 7.5));
}

// A last window that would start in the padding is dropped; the divisors of the
// next channels stay theirs.
TEST(AvgPoolKernelTest, PaddingAddsNoWindowOfItsOwn) {
  const Pool2dAttributes pool{.kernel = {3, 3},
                              .stride = {3, 3},
                              .padding = {{1, 1}, {1, 1}},
                              .ceil_mode = true};
  EXPECT_THAT(RunOp(Op::kAvgPool, pool,
                    {F({1, 2, 2, 2}, {9, 0, 0, 0, 18, 0, 0, 0})})[0],
              ElementsAre(1, 2));
}

TEST(AvgPoolKernelTest, VolumesHaveADepth) {
  const Pool2dAttributes pool{
      .kernel = {1, 1, 2}, .stride = {1, 1, 1}, .dilation = {1, 1, 1}};
  EXPECT_THAT(RunOp(Op::kAvgPool, pool, {F({1, 1, 2, 1, 2}, {1, 2, 3, 6})})[0],
              ElementsAre(2, 4));
}

TEST(GlobalAvgPoolKernelTest, IsTheMeanOfEachPlane) {
  EXPECT_THAT(
      RunOp(Op::kGlobalAvgPool, {}, {F({1, 2, 1, 2}, {1, 3, 10, 30})})[0],
      ElementsAre(2, 20));
}

}  // namespace
}  // namespace gpupool::engine::reference
