#include "engine/metrics/number_sums.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

namespace gpupool::engine {
namespace {

using Row = std::array<float, 2>;

constexpr Row kTargets[] = {{1, 2}, {2, 4}, {3, 3}, {5, 1}};
constexpr Row kOutputs[] = {
    {1.1f, 2.5f}, {1.8f, 3.5f}, {2.9f, 2}, {5.5f, 1.2f}};

NumberSums SumsOf(int begin, int end) {
  NumberSums sums(2);
  for (int i = begin; i < end; ++i) sums.Add(kOutputs[i], kTargets[i]);
  return sums;
}

// The expected numbers are those of scikit-learn 1.2.1: mean_absolute_error and
// r2_score.
TEST(NumberSumsTest, TheMeanIsOverRowsAndColumns) {
  const NumberSums sums = SumsOf(0, 4);
  EXPECT_NEAR(sums.MeanAbsoluteError(), 0.3875, 1e-7);
  EXPECT_NEAR(sums.R2(), 0.8282857142857143, 1e-7);
}

TEST(NumberSumsTest, RanksTogetherGiveWhatOneGives) {
  NumberSums merged(2);
  for (int i = 0; i <= 4; i += 2) {
    merged.Merge(SumsOf(i, std::min(i + 2, 4)).numbers());
  }
  EXPECT_NEAR(merged.R2(), SumsOf(0, 4).R2(), 1e-12);
  EXPECT_NEAR(merged.MeanAbsoluteError(), SumsOf(0, 4).MeanAbsoluteError(),
              1e-12);
}

TEST(NumberSumsTest, EqualTargetsAreExplainedOrNot) {
  NumberSums right(1), wrong(1);
  for (int i = 0; i < 3; ++i) {
    right.Add(std::array{2.f}, std::array{2.f});
    wrong.Add(std::array{2.5f}, std::array{2.f});
  }
  EXPECT_EQ(right.R2(), 1);
  EXPECT_EQ(wrong.R2(), 0);
}

// A mean far from 0 must not swallow the spread around it.
TEST(NumberSumsTest, TargetsFarFromZeroKeepTheirSpread) {
  NumberSums sums(1);
  for (int i = 0; i < 1000; ++i) {
    const float target = 1e6f + static_cast<float>(i % 2);
    sums.Add(std::array{target}, std::array{target});
    sums.Add(std::array{1e6f + 0.5f}, std::array{target});
  }
  EXPECT_NEAR(sums.R2(), 0.5, 1e-9);
}

TEST(NumberSumsTest, WithoutRowsTheErrorIsZero) {
  EXPECT_EQ(NumberSums(1).MeanAbsoluteError(), 0);
}

}  // namespace
}  // namespace gpupool::engine
