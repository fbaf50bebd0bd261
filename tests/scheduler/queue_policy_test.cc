#include "scheduler/queue_policy.h"

#include <gmock/gmock.h>

#include "tests/scheduler/scheduler_fixture.h"

namespace gpupool::scheduler {
namespace {

using ::testing::HasSubstr;
using QueuePolicyTest = SchedulerTest;

TEST_F(QueuePolicyTest, HigherPriorityGoesFirstThenFirstSubmitted) {
  AddReadyDevice("cpu:0", 100);
  const JobId running = Submit(100);
  const JobId low = Submit(100, -1);
  const JobId first = Submit(100, 5);
  const JobId second = Submit(100, 5);
  std::vector<JobId> order;
  JobId current = running;
  for (JobId expected : {first, second, low}) {
    End(current, Outcome::kSucceeded);
    EXPECT_EQ(job(expected).state, JobState::kStarting);
    current = expected;
  }
}

TEST_F(QueuePolicyTest, ASmallJobPassesOneThatDoesNotFitNow) {
  AddReadyDevice("cpu:0", 100);
  Submit(60);
  const JobId large = Submit(60);
  const JobId small = Submit(40);
  EXPECT_EQ(job(large).state, JobState::kQueued);
  EXPECT_EQ(job(small).state, JobState::kStarting);
  EXPECT_EQ(job(large).passes, 1u);
}

TEST_F(QueuePolicyTest, AJobThatWasPassedTooOftenGetsADeviceHeld) {
  const DeviceId device = AddReadyDevice("cpu:0", 100);
  const JobId first = Submit(50);
  const JobId large = Submit(100);
  for (uint32_t i = 0; i < kMaxPasses; ++i) {
    const JobId small = Submit(10);
    ASSERT_EQ(job(small).state, JobState::kStarting) << "pass " << i;
    End(small, Outcome::kSucceeded);
  }
  EXPECT_EQ(job(large).held_device, device);
  const JobId late = Submit(10);
  EXPECT_EQ(job(late).state, JobState::kQueued);
  End(first, Outcome::kSucceeded);
  EXPECT_EQ(job(large).state, JobState::kStarting);
  EXPECT_EQ(job(large).held_device, std::nullopt);
}

TEST_F(QueuePolicyTest, AHeldDeviceDoesNotBlockTheOthers) {
  AddReadyDevice("cpu:0", 100);
  AddReadyDevice("cpu:1", 20);
  Submit(50);
  Submit(100);
  for (uint32_t i = 0; i < kMaxPasses; ++i) {
    End(Submit(10), Outcome::kSucceeded);
  }
  const JobId late = Submit(10);
  EXPECT_EQ(job(late).state, JobState::kStarting);
  EXPECT_EQ(state.devices().at(*job(late).device).name, "cpu:1");
}

TEST_F(QueuePolicyTest, ReasonNamesTheNeedTheLargestFreeAndThePlace) {
  AddReadyDevice("cpu:0", 100 * kMiB);
  Submit(60 * kMiB);
  Submit(60 * kMiB);
  const JobId last = Submit(50 * kMiB);
  EXPECT_EQ(WaitingReasons(state, 10).at(last),
            "waits for 50.0 MiB on a device; the largest free is 40.0 MiB on "
            "cpu:0; 1 job is ahead");
}

TEST_F(QueuePolicyTest, ReasonSaysWhenServedModelsAreInTheWay) {
  AddReadyDevice("cpu:0", 100);
  Load(Create("digits", 1, 80));
  const JobId waiting = Submit(50);
  EXPECT_THAT(WaitingReasons(state, 10).at(waiting),
              HasSubstr("served models hold the rest"));
}

TEST_F(QueuePolicyTest, ReasonSaysWhenWorkersAreAwayOrTheServerDrains) {
  AddDevice("cpu:0", 100);
  const JobId waiting = Submit(50);
  EXPECT_THAT(WaitingReasons(state, 10).at(waiting),
              HasSubstr("their workers are starting; it is next"));
  Send(DrainRequested{});
  EXPECT_THAT(WaitingReasons(state, 10).at(waiting), HasSubstr("draining"));
}

TEST_F(QueuePolicyTest, ReasonsStopAtTheLimit) {
  AddDevice("cpu:0", 100);
  for (int i = 0; i < 5; ++i) Submit(50);
  EXPECT_EQ(WaitingReasons(state, 3).size(), 3u);
}

}  // namespace
}  // namespace gpupool::scheduler
