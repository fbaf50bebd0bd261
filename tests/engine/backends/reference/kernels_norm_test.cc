#include <gmock/gmock.h>

#include <cmath>

#include "tests/engine/backends/reference/one_op.h"

namespace gpupool::engine::reference {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::Pointwise;

TEST(BatchNormKernelTest, NormalisesWithTheBiasedVariance) {
  // Channel 0 holds 1, 3: mean 2, variance 1. Channel 1 holds 4, 4.
  const auto y =
      RunOp(Op::kBatchNormTraining, NormAttributes{.epsilon = 3},
            {F({2, 2}, {1, 4, 3, 4}), F({2}, {2, 5}), F({2}, {10, 20})});
  EXPECT_THAT(y[0], ElementsAre(9, 20, 11, 20));
  EXPECT_THAT(y[1], ElementsAre(2, 4));
  EXPECT_THAT(y[2], ElementsAre(1, 0));
}

TEST(BatchNormKernelTest, ChannelsOfImagesAreTheSecondDimension) {
  const auto y =
      RunOp(Op::kBatchNormTraining, NormAttributes{},
            {F({1, 2, 1, 2}, {1, 3, 10, 30}), F({2}, {1, 1}), F({2}, {0, 0})});
  EXPECT_THAT(y[1], ElementsAre(2, 20));
  EXPECT_THAT(y[2], ElementsAre(1, 100));
}

TEST(BatchNormKernelTest, RunningVarianceIsTheUnbiasedOne) {
  const auto y = RunOp(Op::kBatchNormUpdate, BatchNormUpdateAttributes{0.1, 2},
                       {F({1}, {1}), F({1}, {1}), F({1}, {3}), F({1}, {4})});
  EXPECT_DOUBLE_EQ(y[0][0], 0.9 + 0.3);
  EXPECT_DOUBLE_EQ(y[1][0], 0.9 + 0.1 * 4 * 2 / 1);
}

TEST(BatchNormKernelTest, InferenceUsesTheGivenStatistics) {
  EXPECT_THAT(RunOp(Op::kBatchNormInference, NormAttributes{.epsilon = 0.25},
                    {F({1, 1}, {5}), F({1}, {2}), F({1}, {1}), F({1}, {4}),
                     F({1}, {0.75})})[0],
              ElementsAre(3));
}

TEST(BatchNormKernelTest, FoldedWeightsGiveTheSameResult) {
  const auto folded = RunOp(Op::kFoldBatchNorm, NormAttributes{.epsilon = 0.25},
                            {F({1, 2}, {3, 4}), F({1}, {2}), F({1}, {1}),
                             F({1}, {5}), F({1}, {0.75}), F({1}, {7})});
  EXPECT_THAT(folded[0], ElementsAre(6, 8));
  EXPECT_THAT(folded[1], ElementsAre(1 + (7 - 5) * 2));
}

TEST(LayerNormKernelTest, NormalisesEachRow) {
  const auto y = RunOp(
      Op::kLayerNorm, NormAttributes{.epsilon = 3, .with_statistics = true},
      {F({2, 2}, {1, 3, 10, 12}), F({2}, {1, 2}), F({2}, {0, 1})});
  EXPECT_THAT(y[0], ElementsAre(-0.5, 2, -0.5, 2));
  EXPECT_THAT(y[1], ElementsAre(2, 11));
  EXPECT_THAT(y[2], ElementsAre(1, 1));
}

TEST(SoftmaxKernelTest, SurvivesLargeNumbers) {
  const auto y = RunOp(Op::kSoftmax, {}, {F({2, 2}, {1000, 1000, 0, -1e9})});
  EXPECT_THAT(y[0], Pointwise(DoubleNear(1e-12), {0.5, 0.5, 1.0, 0.0}));
}

}  // namespace
}  // namespace gpupool::engine::reference
