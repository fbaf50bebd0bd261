#include "scheduler/order/queue_policy.h"

#include <gmock/gmock.h>

#include "scheduler/explain/waiting_reason.h"
#include "tests/scheduler/scheduler_fixture.h"

namespace gpupool::scheduler {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
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
  EXPECT_THAT(job(large).held_devices, ElementsAre(device));
  const JobId late = Submit(10);
  EXPECT_EQ(job(late).state, JobState::kQueued);
  End(first, Outcome::kSucceeded);
  EXPECT_EQ(job(large).state, JobState::kStarting);
  EXPECT_THAT(job(large).held_devices, IsEmpty());
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
  EXPECT_EQ(state.devices().at(DeviceOf(late)).name, "cpu:1");
}

TEST_F(QueuePolicyTest, SmallJobsDoNotStarveAGang) {
  AddReadyDevice("cpu:0", 100);
  AddReadyDevice("cpu:1", 100);
  AddReadyDevice("cpu:2", 100);
  std::vector<JobId> running;
  for (int i = 0; i < 3; ++i) running.push_back(Submit(60));
  const JobId gang = SubmitGang(100, 2);
  // One device after the other becomes free and is taken again at once.
  for (uint32_t i = 0; i < 4 * kMaxPasses; ++i) {
    if (job(gang).state != JobState::kQueued) break;
    running.push_back(Submit(60));
    End(running.front(), Outcome::kSucceeded);
    running.erase(running.begin());
    while (job(running.front()).state == JobState::kQueued) {
      running.push_back(running.front());
      running.erase(running.begin());
      ASSERT_LT(running.size(), 1000u);
    }
  }
  EXPECT_EQ(job(gang).state, JobState::kStarting);
}

TEST_F(QueuePolicyTest, TwoGangsWithDevicesHeldDoNotWaitForEachOther) {
  for (const char* name : {"cpu:0", "cpu:1", "cpu:2"})
    AddReadyDevice(name, 100);
  std::vector<JobId> running;
  for (int i = 0; i < 3; ++i) running.push_back(Submit(50));
  const JobId first = SubmitGang(100, 2);
  const JobId second = SubmitGang(99, 2);  // of a different shape
  for (uint32_t i = 0; i < kMaxPasses; ++i)
    End(Submit(10), Outcome::kSucceeded);
  EXPECT_EQ(job(first).held_devices.size(), 2u);
  EXPECT_EQ(job(second).held_devices.size(), 2u);
  for (JobId id : running) End(id, Outcome::kSucceeded);
  EXPECT_EQ(job(first).state, JobState::kStarting);
  EndRank(first, 0, Outcome::kSucceeded);
  EndRank(first, 1, Outcome::kSucceeded);
  EXPECT_EQ(job(second).state, JobState::kStarting);
}

TEST_F(QueuePolicyTest, AHeldDeviceThatIsLostIsReplacedByAnother) {
  std::vector<DeviceId> devices;
  for (const char* name : {"cpu:0", "cpu:1", "cpu:2"}) {
    devices.push_back(AddReadyDevice(name, 100));
  }
  for (uint64_t bytes : {50, 40, 30}) Submit(bytes);
  const JobId gang = SubmitGang(100, 2);
  for (uint32_t i = 0; i < kMaxPasses; ++i)
    End(Submit(10), Outcome::kSucceeded);
  ASSERT_THAT(job(gang).held_devices, ElementsAre(devices[1], devices[2]));
  Send(WorkerLost{devices[2], "gone"});
  EXPECT_EQ(job(Submit(10)).state, JobState::kStarting);
  EXPECT_THAT(job(gang).held_devices, ElementsAre(devices[0], devices[1]));
}

TEST_F(QueuePolicyTest, ReasonOfAGangCountsTheFreeDevices) {
  AddReadyDevice("cpu:0", 100 * kMiB);
  AddReadyDevice("cpu:1", 100 * kMiB);
  Submit(60 * kMiB);
  const JobId gang = SubmitGang(50 * kMiB, 2);
  EXPECT_EQ(WaitingReasons(state, 10).at(gang),
            "waits for 2 devices of one kind with 50.0 MiB each; 1 is free; it "
            "is next");
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

TEST_F(QueuePolicyTest, ReasonNamesTheMemoryFraction) {
  const DeviceId device = AddReadyDevice("cpu:0", 100);
  Send(MemoryFractionSet{device, 0.5});
  const JobId waiting = Submit(60);
  EXPECT_EQ(WaitingReasons(state, 10).at(waiting),
            "waits for 60 B on a device; the largest free is 50 B on cpu:0; a "
            "memory fraction of 0.5 keeps it off cpu:0, which has 100 B: raise "
            "it with `gpupool devices fraction`; it is next");
}

}  // namespace
}  // namespace gpupool::scheduler
