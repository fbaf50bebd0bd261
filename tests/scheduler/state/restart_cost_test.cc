#include "scheduler/state/restart_cost.h"

#include <gtest/gtest.h>

namespace gpupool::scheduler {
namespace {

TEST(RestartCostTest, AsConfiguredWhileFewAreKnown) {
  RestartCost cost;
  for (size_t i = 1; i < RestartCost::kFew; ++i) cost.Add(absl::Seconds(1));
  EXPECT_EQ(cost.OrElse(absl::Seconds(60)), absl::Seconds(60));
  cost.Add(absl::Seconds(1));
  EXPECT_EQ(cost.OrElse(absl::Seconds(60)), absl::Seconds(1));
}

TEST(RestartCostTest, OneSlowRestartDoesNotCount) {
  RestartCost cost;
  for (int i = 0; i < 5; ++i) cost.Add(absl::Seconds(2));
  cost.Add(absl::Hours(1));
  EXPECT_EQ(cost.OrElse(absl::Seconds(60)), absl::Seconds(2));
}

TEST(RestartCostTest, ForgetsWhatWasLongAgo) {
  RestartCost cost;
  for (size_t i = 0; i < RestartCost::kKept; ++i) cost.Add(absl::Hours(1));
  for (size_t i = 0; i < RestartCost::kKept; ++i) cost.Add(absl::Seconds(3));
  EXPECT_EQ(cost.OrElse(absl::Seconds(60)), absl::Seconds(3));
}

}  // namespace
}  // namespace gpupool::scheduler
