#include "scheduler/simulator/summary.h"

#include <gtest/gtest.h>

namespace gpupool::scheduler {
namespace {

// Returns completion times of 1, 2, ... n seconds, the largest first.
ReplayResult Falling(int n) {
  ReplayResult result;
  for (int i = n; i >= 1; --i) {
    result.jobs.push_back(
        {.completion = absl::Seconds(i), .wait = absl::Milliseconds(i * 100)});
  }
  return result;
}

TEST(SummaryTest, QuantilesAreThoseAtTheIndexRoundedDown) {
  const ReplaySummary summary = Summarize(Falling(200));
  EXPECT_EQ(summary.jobs, 200u);
  EXPECT_DOUBLE_EQ(summary.mean_jct_s, 100.5);
  EXPECT_DOUBLE_EQ(summary.p50_jct_s, 101);
  EXPECT_DOUBLE_EQ(summary.p99_jct_s, 199);
  EXPECT_NEAR(summary.mean_wait_s, 10.05, 1e-9);
}

TEST(SummaryTest, OneJobIsAllItsFigures) {
  const ReplaySummary summary = Summarize(Falling(1));
  EXPECT_DOUBLE_EQ(summary.mean_jct_s, 1);
  EXPECT_DOUBLE_EQ(summary.p50_jct_s, 1);
  EXPECT_DOUBLE_EQ(summary.p99_jct_s, 1);
}

TEST(SummaryTest, OfNoJobsThereIsNothingToSay) {
  EXPECT_DOUBLE_EQ(Summarize({}).mean_jct_s, 0);
}

TEST(SummaryTest, TheRestIsTakenOver) {
  ReplayResult result = Falling(2);
  result.makespan = absl::Seconds(7);
  result.utilization = 0.5;
  result.arrival_utilization = 0.75;
  result.fragmentation = 0.25;
  result.preemptions = 3;
  result.moves = 2;
  result.events = 9;
  const ReplaySummary summary = Summarize(result);
  EXPECT_DOUBLE_EQ(summary.makespan_s, 7);
  EXPECT_DOUBLE_EQ(summary.utilization, 0.5);
  EXPECT_DOUBLE_EQ(summary.arrival_utilization, 0.75);
  EXPECT_DOUBLE_EQ(summary.fragmentation, 0.25);
  EXPECT_EQ(summary.preemptions, 3u);
  EXPECT_EQ(summary.moves, 2u);
  EXPECT_EQ(summary.events, 9u);
}

}  // namespace
}  // namespace gpupool::scheduler
