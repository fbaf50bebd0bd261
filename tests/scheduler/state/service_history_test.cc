#include "scheduler/state/service_history.h"

#include <gtest/gtest.h>

#include <cmath>

namespace gpupool::scheduler {
namespace {

double SecondsPerCompletion(const ServiceHistory& history, double attained) {
  return absl::ToDoubleSeconds(history.PerCompletion(absl::Seconds(attained)));
}

TEST(ServiceHistoryTest, WhileFewJobsAreKnownAgeItselfIsTheCost) {
  ServiceHistory history;
  for (uint64_t i = 1; i < ServiceHistory::kFewJobs; ++i) {
    history.Add(absl::Seconds(100));
  }
  EXPECT_EQ(history.PerCompletion(absl::Seconds(7)), absl::Seconds(7));
  history.Add(absl::Seconds(100));
  EXPECT_NE(history.PerCompletion(absl::Seconds(7)), absl::Seconds(7));
}

// Exponential run times have no memory: at every age a completion takes the
// mean.
TEST(ServiceHistoryTest, WithoutMemoryEveryAgeCostsTheMean) {
  constexpr double kMean = 5000;
  constexpr int kJobs = 4000;
  ServiceHistory history;
  for (int i = 0; i < kJobs; ++i) {
    const double quantile = (i + 0.5) / kJobs;
    history.Add(absl::Seconds(-kMean * std::log(quantile)));
  }
  for (double age : {0.0, 100.0, 1000.0, 4000.0, 9000.0}) {
    EXPECT_NEAR(SecondsPerCompletion(history, age), kMean, 0.15 * kMean) << age;
  }
}

TEST(ServiceHistoryTest, WhereMostEndEarlyAnOldJobCostsMore) {
  ServiceHistory history;
  for (int i = 0; i < 900; ++i) history.Add(absl::Seconds(60));
  for (int i = 0; i < 100; ++i) history.Add(absl::Seconds(100000));
  const double young = SecondsPerCompletion(history, 1);
  const double old = SecondsPerCompletion(history, 2000);
  EXPECT_LT(young, 120);
  EXPECT_GT(old, 50000);
}

TEST(ServiceHistoryTest, BeyondTheLongestJobAgeItselfIsTheCost) {
  ServiceHistory history;
  for (int i = 0; i < 100; ++i) history.Add(absl::Seconds(60));
  EXPECT_EQ(history.PerCompletion(absl::Hours(100)), absl::Hours(100));
}

TEST(ServiceHistoryTest, TheCostIsConstantBetweenTheAgesThatAreNamed) {
  ServiceHistory history;
  for (int i = 1; i < 500; ++i) history.Add(absl::Seconds(i * i));
  absl::Duration age;
  while (age < absl::Hours(50)) {  // shorter than the longest
    const absl::Duration next = ServiceHistory::NextChange(age);
    ASSERT_GT(next, age);
    EXPECT_EQ(history.PerCompletion(age),
              history.PerCompletion(next - absl::Microseconds(1)))
        << age;
    age = next;
  }
}

TEST(ServiceHistoryTest, StrangeRunTimesDoNoHarm) {
  ServiceHistory history;
  for (int i = 0; i < 60; ++i) {
    history.Add(-absl::Seconds(1));
    history.Add(absl::ZeroDuration());
    history.Add(absl::InfiniteDuration());
  }
  EXPECT_GE(SecondsPerCompletion(history, 0), 0);
  EXPECT_GE(SecondsPerCompletion(history, 1e12), 0);
}

}  // namespace
}  // namespace gpupool::scheduler
