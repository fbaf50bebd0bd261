#include "scheduler/simulator/replay.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>

namespace gpupool::scheduler {
namespace {

using ::testing::HasSubstr;

TraceJob Submitted(double at, double run, uint32_t devices = 1) {
  return {.submit = absl::Seconds(at),
          .devices = devices,
          .run = absl::Seconds(run)};
}

ReplayOptions Options(Order order, uint32_t nodes, uint32_t devices) {
  ReplayOptions options{.nodes = nodes, .devices_per_node = devices};
  options.policy.order = order;
  options.run_times_known = order == Order::kShortestRemaining;
  options.check_invariants = true;
  return options;
}

ReplayResult Replay(const std::vector<TraceJob>& trace,
                    const ReplayOptions& options) {
  auto result = ReplayTrace(trace, options, [](double) { return true; });
  EXPECT_TRUE(result.ok()) << result.status();
  return result.ok() ? *std::move(result) : ReplayResult();
}

double Completion(const ReplayResult& result, size_t job) {
  return absl::ToDoubleSeconds(result.jobs.at(job).completion);
}

double MeanCompletion(const ReplayResult& result) {
  double sum = 0;
  for (const ReplayedJob& job : result.jobs) {
    sum += absl::ToDoubleSeconds(job.completion);
  }
  return sum / static_cast<double>(result.jobs.size());
}

TEST(ReplayTest, FirstComeIsServedFirst) {
  const ReplayResult result =
      Replay({Submitted(0, 100), Submitted(10, 50), Submitted(20, 5)},
             Options(Order::kFirstCome, 1, 1));
  EXPECT_DOUBLE_EQ(Completion(result, 0), 100);
  EXPECT_DOUBLE_EQ(Completion(result, 1), 140);
  EXPECT_DOUBLE_EQ(Completion(result, 2), 135);
  EXPECT_EQ(result.jobs[1].wait, absl::Seconds(90));
  EXPECT_EQ(result.makespan, absl::Seconds(155));
  EXPECT_DOUBLE_EQ(result.utilization, 1);
  EXPECT_EQ(result.preemptions, 0u);
}

TEST(ReplayTest, ArrivalUtilizationEndsWithTheLastSubmission) {
  const ReplayResult result =
      Replay({Submitted(0, 50), Submitted(60, 1000), Submitted(100, 10)},
             Options(Order::kFirstCome, 1, 2));
  EXPECT_DOUBLE_EQ(result.arrival_utilization, (50.0 + 40.0) / 200);
  EXPECT_DOUBLE_EQ(result.utilization, 1060.0 / (2 * 1060));
}

TEST(ReplayTest, AGeneratedTraceKeepsThePoolBusyWhileJobsCome) {
  const auto trace =
      GenerateTrace({.jobs = 4000, .devices = 64, .load = 0.9, .seed = 1});
  const ReplayResult result = Replay(trace, Options(Order::kFirstCome, 8, 8));
  EXPECT_GT(result.arrival_utilization, 0.6);
  EXPECT_LE(result.arrival_utilization, 1);
}

TEST(ReplayTest, AShortJobInterruptsALongOneWhichPaysForIt) {
  const ReplayResult result = Replay({Submitted(0, 10000), Submitted(1000, 50)},
                                     Options(Order::kShortestRemaining, 1, 1));
  EXPECT_DOUBLE_EQ(Completion(result, 1), 50);
  EXPECT_DOUBLE_EQ(Completion(result, 0), 10000 + 50 + 60);
  EXPECT_EQ(result.jobs[0].preemptions, 1u);
  EXPECT_EQ(result.jobs[0].wait, absl::Seconds(50));
}

TEST(ReplayTest, WithoutRunTimesTheYoungerGoesFirst) {
  const ReplayResult result = Replay({Submitted(0, 10000), Submitted(5000, 50)},
                                     Options(Order::kLeastAttained, 1, 1));
  EXPECT_DOUBLE_EQ(Completion(result, 1), 50);
  EXPECT_DOUBLE_EQ(Completion(result, 0), 10110);
}

TEST(ReplayTest, AGangRunsOnOneMachineAndALargerOneOnWholeMachines) {
  const ReplayResult result =
      Replay({Submitted(0, 100), Submitted(0, 100, 4), Submitted(0, 100, 6)},
             Options(Order::kFirstCome, 2, 4));
  EXPECT_DOUBLE_EQ(Completion(result, 1), 100) << "beside the small one";
  EXPECT_DOUBLE_EQ(Completion(result, 2), 200) << "when both are free";
}

TEST(ReplayTest, AJobThatIsLargerThanThePoolIsNamed) {
  TraceJob job = Submitted(0, 1, 9);
  job.name = "huge";
  const auto result = ReplayTrace({job}, Options(Order::kFirstCome, 2, 4),
                                  [](double) { return true; });
  EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(result.status().message()),
              HasSubstr("huge needs 9 devices"));
}

TEST(ReplayTest, EveryPolicyEndsEveryJobAndKeepsAllInvariants) {
  for (Order order :
       {Order::kFirstCome, Order::kLeastAttained, Order::kShortestRemaining}) {
    const auto trace =
        GenerateTrace({.jobs = 400, .devices = 16, .load = 1.1, .seed = 3});
    const ReplayResult result = Replay(trace, Options(order, 4, 4));
    for (size_t i = 0; i < result.jobs.size(); ++i) {
      EXPECT_GE(result.jobs[i].completion, trace[i].run);
    }
    EXPECT_LE(result.utilization, 1);
    EXPECT_GT(result.utilization, 0.2) << "with its long tail";
  }
}

TEST(ReplayTest, TheSameTraceGivesTheSameResult) {
  const auto trace = GenerateTrace({.jobs = 300, .devices = 8, .load = 1.2});
  const auto options = Options(Order::kLeastAttained, 2, 4);
  const ReplayResult first = Replay(trace, options);
  const ReplayResult again = Replay(trace, options);
  for (size_t i = 0; i < trace.size(); ++i) {
    ASSERT_EQ(first.jobs[i].completion, again.jobs[i].completion);
  }
  EXPECT_EQ(first.events, again.events);
}

TEST(ReplayTest, EndsWhenItIsToldTo) {
  const auto trace = GenerateTrace({.jobs = 2000, .devices = 8, .load = 0.5});
  ReplayOptions options = Options(Order::kFirstCome, 2, 4);
  options.check_invariants = false;
  double last = 0;
  const auto result = ReplayTrace(trace, options, [&](double share) {
    EXPECT_GT(share, last);
    last = share;
    return share < 0.3;
  });
  EXPECT_EQ(result.status().code(), absl::StatusCode::kCancelled);
  EXPECT_GE(last, 0.3);
  EXPECT_LT(last, 1);
}

// Checks the purpose of the policies, on a pool that is nearly always full.
TEST(ReplayTest, KnowingMoreEndsJobsSooner) {
  const auto trace =
      GenerateTrace({.jobs = 1500, .devices = 16, .load = 1.0, .seed = 5});
  ReplayOptions options = Options(Order::kFirstCome, 4, 4);
  options.check_invariants = false;
  const double fifo = MeanCompletion(Replay(trace, options));
  options.policy.order = Order::kLeastAttained;
  const double las = MeanCompletion(Replay(trace, options));
  options.policy.order = Order::kShortestRemaining;
  options.run_times_known = true;
  const double srs = MeanCompletion(Replay(trace, options));
  EXPECT_LT(las, fifo);
  EXPECT_LT(srs, las);
}

}  // namespace
}  // namespace gpupool::scheduler
