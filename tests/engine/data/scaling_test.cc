#include "engine/data/scaling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "gpupool/v1/job.pb.h"

namespace gpupool::engine {
namespace {

using testing::ElementsAre;

// Returns three rows of two features. The last row is not for training.
Table SmallTable() {
  Table table;
  table.rows = 3;
  table.feature_shape = {2};
  table.row_features = 2;
  table.features = {1, 5, 3, 5, 100, 100};
  table.labels = {0, 0, 0};
  return table;
}

TEST(ScalingTest, MultiplyIsTheSameForEveryFeature) {
  v1::Scaling rule;
  rule.set_multiply(0.0625);
  auto values = ComputeScaling(rule, SmallTable(), {0, 1});
  ASSERT_TRUE(values.ok());
  EXPECT_THAT(values->scale, ElementsAre(0.0625, 0.0625));
  EXPECT_THAT(values->shift, ElementsAre(0, 0));
}

TEST(ScalingTest, StandardizeUsesTheGivenRowsOnly) {
  v1::Scaling rule;
  rule.mutable_standardize();
  auto values = ComputeScaling(rule, SmallTable(), {0, 1});
  ASSERT_TRUE(values.ok());
  // Feature 0 has mean 2 and deviation 1. Feature 1 is constant, so it is only
  // centred.
  EXPECT_THAT(values->scale, ElementsAre(1, 1));
  EXPECT_THAT(values->shift, ElementsAre(-2, -5));
}

TEST(ScalingTest, MinMaxMapsTheRangeToZeroToOne) {
  v1::Scaling rule;
  rule.mutable_min_max();
  auto values = ComputeScaling(rule, SmallTable(), {0, 1});
  ASSERT_TRUE(values.ok());
  EXPECT_THAT(values->scale, ElementsAre(0.5, 1));
  EXPECT_THAT(values->shift, ElementsAre(-0.5, -5));
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
