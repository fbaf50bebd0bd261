#include "scheduler/state/order_policy.h"

#include <gtest/gtest.h>

#include "scheduler/state/state.h"

namespace gpupool::scheduler {
namespace {

const Queue kLeast{.order = Order::kLeastAttained};
const Queue kShortest{.order = Order::kShortestRemaining};
const absl::Time kNow = absl::UnixEpoch() + absl::Hours(100);

Job Attained(absl::Duration attained, uint32_t devices = 1) {
  Job job;
  job.attained = attained;
  job.device_count = devices;
  return job;
}

TEST(OrderPolicyTest, EveryOrderHasAWord) {
  for (Order order :
       {Order::kFirstCome, Order::kPriority, Order::kBackfill,
        Order::kFairShare, Order::kLeastAttained, Order::kShortestRemaining}) {
    const auto parsed = ParseOrder(ToString(order));
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(*parsed, order);
  }
  const auto unknown = ParseOrder("first-come");
  EXPECT_EQ(unknown.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(unknown.status().message(),
            "must be fifo, priority, easy, fair, las or srs");
}

TEST(OrderPolicyTest, FirstComeKnowsNoStanding) {
  const Queue queue;
  EXPECT_EQ(StandingOf(queue, {}, Attained(absl::Hours(5)), kNow), 0);
  EXPECT_FALSE(queue.order_preempts());
}

TEST(OrderPolicyTest, LeastAttainedCountsDeviceTime) {
  EXPECT_EQ(StandingOf(kLeast, {}, Attained(absl::Hours(1), 4), kNow),
            4 * 3600);
}

TEST(OrderPolicyTest, YoungJobsStandTogether) {
  EXPECT_EQ(StandingOf(kLeast, {}, Attained(absl::Seconds(1)), kNow),
            StandingOf(kLeast, {}, Attained(absl::Minutes(9)), kNow));
}

TEST(OrderPolicyTest, ARunningJobGrowsOlder) {
  Job job = Attained(absl::Hours(1));
  job.run_since = kNow - absl::Hours(2);
  EXPECT_EQ(StandingOf(kLeast, {}, job, kNow), 3 * 3600);
}

TEST(OrderPolicyTest, HistoryTellsWhatAnAgeIsWorth) {
  ServiceHistory history;
  for (int i = 0; i < 900; ++i) history.Add(absl::Seconds(60));
  for (int i = 0; i < 100; ++i) history.Add(absl::Hours(30));
  const double young = StandingOf(kLeast, history, Attained({}), kNow);
  const double old =
      StandingOf(kLeast, history, Attained(absl::Hours(1)), kNow);
  EXPECT_LT(100 * young, old);
  EXPECT_DOUBLE_EQ(StandingOf(kLeast, history, Attained({}, 8), kNow),
                   8 * young);
}

TEST(OrderPolicyTest, ShortestRemainingCountsWhatIsLeft) {
  Job job = Attained(absl::Hours(1), 2);
  job.expected_run = absl::Hours(3);
  EXPECT_EQ(StandingOf(kShortest, {}, job, kNow), 2 * 2 * 3600);
  job.expected_run = absl::Minutes(30);
  EXPECT_EQ(StandingOf(kShortest, {}, job, kNow), 0) << "it should have ended";
}

TEST(OrderPolicyTest, WhoHasNotToldStandsByAge) {
  EXPECT_EQ(StandingOf(kShortest, {}, Attained(absl::Hours(2)), kNow),
            StandingOf(kLeast, {}, Attained(absl::Hours(2)), kNow));
}

TEST(OrderPolicyTest, OnlyTheStandingsOfRunningJobsRise) {
  Job job = Attained(absl::Hours(1));
  EXPECT_EQ(NextStandingChange(kLeast, job, kNow), absl::InfiniteFuture());
  job.run_since = kNow;
  EXPECT_GT(NextStandingChange(kLeast, job, kNow), kNow);
  EXPECT_LT(NextStandingChange(kLeast, job, kNow), kNow + absl::Minutes(15));
  EXPECT_EQ(NextStandingChange({}, job, kNow), absl::InfiniteFuture());
  job.expected_run = absl::Hours(9);
  EXPECT_EQ(NextStandingChange(kShortest, job, kNow), absl::InfiniteFuture());
}

}  // namespace
}  // namespace gpupool::scheduler
