#include <gmock/gmock.h>

#include <cmath>

#include "tests/engine/backends/reference/one_op.h"

namespace gpupool::engine::reference {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const Operand kLogits = F({2, 2}, {0, 0, 0, std::log(3.0)});

TEST(CrossEntropyKernelTest, IsTheMeanNegativeLogProbability) {
  const double expected = (std::log(2) + std::log(4.0 / 3)) / 2;
  EXPECT_NEAR(RunOp(Op::kCrossEntropy, LossAttributes{},
                    {kLogits, I({2}, {0, 1})})[0][0],
              expected, 1e-12);
}

TEST(CrossEntropyKernelTest, LabelSmoothingSpreadsOverAllClasses) {
  // Row 1: 0.8 + 0.1 on the label, 0.1 on the other class.
  const double row = 0.9 * std::log(4.0 / 3) + 0.1 * std::log(4);
  EXPECT_NEAR(RunOp(Op::kCrossEntropy,
                    LossAttributes{.reduction = Reduction::kSum,
                                   .label_smoothing = 0.2},
                    {kLogits, I({2}, {0, 1})})[0][0],
              std::log(2) + row, 1e-12);
}

TEST(CrossEntropyKernelTest, RowsBeyondTheCountAreIgnored) {
  const LossAttributes sum{.reduction = Reduction::kSum};
  // The label of the padded row is out of range and must be ignored.
  EXPECT_NEAR(RunOp(Op::kCrossEntropy, sum,
                    {kLogits, I({2}, {0, 99}), I({}, {1})})[0][0],
              std::log(2), 1e-12);
}

TEST(CrossEntropyKernelTest, ALabelOutOfRangeNamesRowAndValue) {
  for (double label : {-1.0, 2.0}) {
    const auto result = TryRunOp(Op::kCrossEntropy, LossAttributes{},
                                 {kLogits, I({2}, {0, label})});
    EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(result.status().message(), HasSubstr("row 1"));
  }
}

TEST(CrossEntropyKernelTest, HugeLogitsStayFinite) {
  EXPECT_NEAR(RunOp(Op::kCrossEntropy, LossAttributes{},
                    {F({1, 2}, {1e6, 0}), I({1}, {1})})[0][0],
              1e6, 1e-6);
}

TEST(CorrectCountKernelTest, TheFirstMaximumIsTheAnswer) {
  EXPECT_THAT(RunOp(Op::kCorrectCount, {},
                    {F({3, 2}, {1, 1, 0, 1, 2, 1}), I({3}, {0, 1, 1})})[0],
              ElementsAre(2));
}

TEST(MeanSquaredErrorKernelTest, MeanOverAllOrSumOfRowMeans) {
  const std::vector<Operand> operands{F({2, 2}, {1, 2, 3, 4}),
                                      F({2, 2}, {1, 0, 3, 0})};
  EXPECT_DOUBLE_EQ(
      RunOp(Op::kMeanSquaredError, LossAttributes{}, operands)[0][0], 5);
  EXPECT_DOUBLE_EQ(
      RunOp(Op::kMeanSquaredError, LossAttributes{.reduction = Reduction::kSum},
            operands)[0][0],
      10);
}

}  // namespace
}  // namespace gpupool::engine::reference
