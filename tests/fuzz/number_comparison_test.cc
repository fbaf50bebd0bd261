#include "tests/fuzz/number_comparison.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace gpupool::engine::fuzz {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(NumberComparisonTest, AllowsAFewUnitsInTheLastPlace) {
  EXPECT_THAT(CompareWithRuns(DType::kFloat32, {{1}}, {1 + 1e-6}).difference,
              IsEmpty());
  EXPECT_THAT(CompareWithRuns(DType::kFloat32, {{1}}, {1 + 1e-5}).difference,
              HasSubstr("element 0 is 1.00001 instead of 1"));
  EXPECT_THAT(CompareWithRuns(DType::kFloat16, {{1}}, {1 + 1e-2}).difference,
              IsEmpty());
}

TEST(NumberComparisonTest, AllowsMoreWhereNoiseChangesTheResult) {
  EXPECT_THAT(CompareWithRuns(DType::kFloat32, {{1, 1}, {1, 1.01}}, {1, 1.1})
                  .difference,
              IsEmpty());
  EXPECT_THAT(CompareWithRuns(DType::kFloat32, {{1, 1}, {1, 1.01}}, {1.1, 1})
                  .difference,
              HasSubstr("element 0"));
}

TEST(NumberComparisonTest, WantsTheSameInfinitiesAndNan) {
  const double nan = std::nan("");
  EXPECT_THAT(
      CompareWithRuns(DType::kFloat32, {{nan, kInfinity}}, {nan, kInfinity})
          .difference,
      IsEmpty());
  EXPECT_THAT(
      CompareWithRuns(DType::kFloat32, {{kInfinity}}, {-kInfinity}).difference,
      HasSubstr("is -inf instead of inf"));
  EXPECT_THAT(CompareWithRuns(DType::kFloat32, {{nan}}, {1}).difference,
              HasSubstr("is 1 instead of nan"));
  EXPECT_THAT(CompareWithRuns(DType::kFloat32, {{1}}, {nan}).difference,
              HasSubstr("is nan instead of 1"));
}

TEST(NumberComparisonTest, SkipsElementsOnWhichTheRunsDisagree) {
  const Comparison floats =
      CompareWithRuns(DType::kFloat32, {{1, 2}, {kInfinity, 2}}, {5, 2});
  EXPECT_THAT(floats.difference, IsEmpty());
  EXPECT_EQ(floats.compared, 1);
  EXPECT_EQ(floats.skipped, 1);
  const Comparison integers =
      CompareWithRuns(DType::kInt64, {{1, 2}, {3, 2}}, {9, 2});
  EXPECT_THAT(integers.difference, IsEmpty());
  EXPECT_EQ(integers.skipped, 1);
}

TEST(NumberComparisonTest, WantsIntegersEqual) {
  EXPECT_THAT(CompareWithRuns(DType::kInt64, {{100}}, {101}).difference,
              HasSubstr("is 101 instead of 100"));
}

TEST(NumberComparisonTest, WantsTheSameNumberOfElements) {
  EXPECT_THAT(CompareWithRuns(DType::kInt64, {{1, 2}}, {1}).difference,
              HasSubstr("1 elements instead of 2"));
}

}  // namespace
}  // namespace gpupool::engine::fuzz
