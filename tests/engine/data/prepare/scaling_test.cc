#include "engine/data/prepare/scaling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "gpupool/v1/job.pb.h"
#include "tests/engine/data/columns.h"

namespace gpupool::engine {
namespace {

using ::testing::ElementsAre;

// Returns three rows of two features. The last row is not for training.
Column SmallColumn() { return ColumnOf({2}, {1, 5, 3, 5, 100, 100}); }

TEST(ScalingTest, MultiplyIsTheSameForEveryFeature) {
  v1::Scaling rule;
  rule.set_multiply(0.0625);
  auto values = ComputeScaling(rule, SmallColumn(), {0, 1});
  ASSERT_TRUE(values.ok());
  EXPECT_THAT(values->scale, ElementsAre(0.0625, 0.0625));
  EXPECT_THAT(values->shift, ElementsAre(0, 0));
}

TEST(ScalingTest, StandardizeUsesTheGivenRowsOnly) {
  v1::Scaling rule;
  rule.mutable_standardize();
  auto values = ComputeScaling(rule, SmallColumn(), {0, 1});
  ASSERT_TRUE(values.ok());
  // Feature 0 has mean 2 and deviation 1. Feature 1 is constant, so it is only
  // centred.
  EXPECT_THAT(values->scale, ElementsAre(1, 1));
  EXPECT_THAT(values->shift, ElementsAre(-2, -5));
}

TEST(ScalingTest, MinMaxMapsTheRangeToZeroToOne) {
  v1::Scaling rule;
  rule.mutable_min_max();
  auto values = ComputeScaling(rule, SmallColumn(), {0, 1});
  ASSERT_TRUE(values.ok());
  EXPECT_THAT(values->scale, ElementsAre(0.5, 1));
  EXPECT_THAT(values->shift, ElementsAre(-0.5, -5));
}

TEST(ScalingTest, TheStoredTypeMakesNoDifference) {
  const Column floats = ColumnOf({2}, {10, 200, 255, 0, 7, 30});
  const Column bytes = ColumnOfBytes(ElementType::kUint8, {2},
                                     std::string("\x0a\xc8\xff\0\x07\x1e", 6));
  for (const bool standardize : {false, true}) {
    v1::Scaling rule;
    if (standardize) {
      rule.mutable_standardize();
    } else {
      rule.mutable_min_max();
    }
    auto wanted = ComputeScaling(rule, floats, {0, 1, 2});
    auto found = ComputeScaling(rule, bytes, {0, 1, 2});
    ASSERT_TRUE(wanted.ok() && found.ok());
    EXPECT_EQ(found->scale, wanted->scale);
    EXPECT_EQ(found->shift, wanted->shift);
  }
}

TEST(ScalingTest, MultiplyByNothingIsRefused) {
  for (double factor : {0.0, std::nan(""), HUGE_VAL}) {
    v1::Scaling rule;
    rule.set_multiply(factor);
    EXPECT_EQ(ValidateScaling(rule).code(), absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace gpupool::engine
