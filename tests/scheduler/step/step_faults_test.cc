#include <gmock/gmock.h>

#include "scheduler/explain/explain.h"
#include "scheduler/explain/waiting_reason.h"
#include "tests/scheduler/scheduler_fixture.h"

namespace gpupool::scheduler {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class StepFaultsTest : public SchedulerTest {
 protected:
  const Device& device(DeviceId id) const { return state.devices().at(id); }

  // The worker of the job's device ends with a fault and comes back.
  StepResult Fault(JobId id, DeviceFault fault = DeviceFault::kLostContext) {
    const DeviceId there = DeviceOf(id);
    StepResult result = Send(WorkerLost{there, "illegal address", fault});
    if (fault != DeviceFault::kSuspect) Send(WorkerReady{.device = there});
    return result;
  }
  void Wait(absl::Duration time) {
    now += time;
    Send(TimerFired{});
  }
  // Waits until the job runs again.
  void WaitForNextAttempt(JobId id) {
    const uint32_t attempt = job(id).attempt;
    for (int i = 0; i < 2000 && job(id).attempt == attempt; ++i) {
      Wait(absl::Seconds(1));
    }
    ASSERT_GT(job(id).attempt, attempt);
    Begin(id);
  }
};

TEST_F(StepFaultsTest, AFaultOfTheDeviceIsNotChargedToTheJob) {
  AddReadyDevice("cpu:0", 100);
  const JobId id(++last_job);
  Send(JobSubmitted{.max_attempts = 1, .id = id, .bytes = 10});
  Begin(id);
  const StepResult lost = Fault(id);
  EXPECT_EQ(job(id).state, JobState::kBackingOff);
  EXPECT_EQ(job(id).failures, 0u);
  EXPECT_THAT(lost.job_changes.at(0).reason,
              HasSubstr("the device failed, not the job: tries again in 1s (0 "
                        "of 1 attempt used)"));
}

TEST_F(StepFaultsTest, ASparedAttemptIsChargedToNobody) {
  const DeviceId there = AddReadyDevice("cpu:0", 100);
  const JobId id(++last_job);
  Send(JobSubmitted{.max_attempts = 1, .id = id, .bytes = 10});
  for (int i = 0; i < 9; ++i) {
    Begin(id);
    const StepResult ended = Send(AttemptEnded{.device = there,
                                               .attempt = {id, job(id).attempt},
                                               .outcome = Outcome::kInterrupted,
                                               .message = "the disk is full",
                                               .spared = true});
    EXPECT_EQ(job(id).state, JobState::kBackingOff);
    EXPECT_EQ(job(id).failures, 0u);
    EXPECT_EQ(device(there).faults, 0u);
    EXPECT_THAT(ended.job_changes.at(0).reason,
                HasSubstr("the disk is full; that was not the job's fault"));
    Wait(absl::Minutes(1));
  }
}

TEST_F(StepFaultsTest, NoJobStartsOnADeviceThatCoolsDown) {
  const DeviceId only = AddReadyDevice("cpu:0", 100);
  const JobId id = Submit(10);
  Begin(id);
  Fault(id);
  Wait(kFirstCooldown - absl::Seconds(1));
  EXPECT_EQ(job(id).state, JobState::kQueued);
  EXPECT_TRUE(device(only).cools());
  EXPECT_THAT(WaitingReason(state, job(id)),
              HasSubstr("cpu:0 cools down until 00:00:10 UTC after a fault"));
  const Explanation why = Explain(state, job(id), now);
  EXPECT_THAT(why.devices.at(0).obstacle,
              HasSubstr("cools down for another 1s after a fault: illegal "
                        "address"));
  EXPECT_THAT(why.changes, ElementsAre("the cool-down of cpu:0 ends, in 1s"));
  Wait(absl::Seconds(1));
  EXPECT_EQ(job(id).state, JobState::kStarting);
  EXPECT_FALSE(device(only).cools());
}

TEST_F(StepFaultsTest, TheJobGoesElsewhereMeanwhile) {
  const DeviceId first = AddReadyDevice("cpu:0", 100);
  const DeviceId second = AddReadyDevice("cpu:1", 100);
  const JobId id = Submit(10);
  Begin(id);
  ASSERT_EQ(DeviceOf(id), first);
  Fault(id);
  Wait(absl::Seconds(1));
  EXPECT_EQ(DeviceOf(id), second);
}

TEST_F(StepFaultsTest, TheCooldownDoublesWithEachFaultUpToABound) {
  const DeviceId only = AddReadyDevice("cpu:0", 100);
  absl::Duration expected = kFirstCooldown;
  for (int i = 0; i < 12; ++i) {
    // Uses a different job each time, so that none is blamed.
    const JobId id = Submit(10);
    Begin(id);
    Fault(id);
    EXPECT_EQ(device(only).cools_until - now, expected) << i;
    Send(JobCancelRequested{id});
    Wait(expected);
    ASSERT_FALSE(device(only).cools());
    expected = std::min(2 * expected, kLongestCooldown);
  }
}

TEST_F(StepFaultsTest, AJobThatEndsWellStartsTheCountAnew) {
  const DeviceId only = AddReadyDevice("cpu:0", 100);
  const JobId id = Submit(10);
  Begin(id);
  Fault(id);
  WaitForNextAttempt(id);
  EXPECT_EQ(device(only).faults, 1u);
  End(id, Outcome::kSucceeded);
  EXPECT_EQ(device(only).faults, 0u);
}

TEST_F(StepFaultsTest, AnHourWithoutAFaultStartsTheCountAnew) {
  const DeviceId only = AddReadyDevice("cpu:0", 100);
  const JobId id = Submit(10);
  Begin(id);
  Fault(id);
  WaitForNextAttempt(id);
  now += kFaultMemory + absl::Seconds(1);
  Fault(id);
  EXPECT_EQ(device(only).faults, 1u);
}

TEST_F(StepFaultsTest, TheAttemptsOwnReportAndTheLossAreOneFault) {
  const DeviceId only = AddReadyDevice("cpu:0", 100);
  const JobId culprit = Submit(10);
  const JobId neighbour = Submit(10);
  Begin(culprit);
  Begin(neighbour);
  Send(AttemptEnded{only,
                    {culprit, 1},
                    Outcome::kInterrupted,
                    "illegal address",
                    DeviceFault::kLostContext});
  EXPECT_TRUE(device(only).cools()) << "before the worker has ended";
  Fault(neighbour);
  EXPECT_EQ(device(only).faults, 1u);
  EXPECT_THAT(job(culprit).faults, ElementsAre(only));
  // It ran beside the job whose step it was.
  EXPECT_THAT(job(neighbour).faults, IsEmpty());
  EXPECT_EQ(job(neighbour).failures, 0u);
}

TEST_F(StepFaultsTest, AJobUnderWhichDifferentDevicesFailIsToBlame) {
  for (const char* name : {"cpu:0", "cpu:1", "cpu:2"}) {
    AddReadyDevice(name, 100);
  }
  const JobId id = Submit(10);
  Begin(id);
  Fault(id);
  WaitForNextAttempt(id);
  Fault(id);
  WaitForNextAttempt(id);
  const StepResult last = Fault(id);
  EXPECT_EQ(job(id).state, JobState::kFailed);
  EXPECT_THAT(last.blamed, ElementsAre(id));
  EXPECT_THAT(last.job_changes.at(0).reason,
              HasSubstr("is to blame: 3 faults of cpu:0, cpu:1, cpu:2 under "
                        "it, all after step 0"));
  for (const auto& [unused, cleared] : state.devices()) {
    EXPECT_EQ(cleared.faults, 0u);
    EXPECT_FALSE(cleared.cools());
  }
}

TEST_F(StepFaultsTest, TheWorkersEndAfterTheBlameIsNoNewFault) {
  const DeviceId only = AddReadyDevice("cpu:0", 100);
  const JobId id = Submit(10);
  Begin(id);
  for (size_t i = 1; i < kBlameFaults; ++i) {
    Fault(id);
    WaitForNextAttempt(id);
  }
  Send(AttemptEnded{only,
                    {id, job(id).attempt},
                    Outcome::kInterrupted,
                    "illegal address",
                    DeviceFault::kLostContext});
  ASSERT_EQ(job(id).state, JobState::kFailed);
  Send(WorkerLost{only, "illegal address", DeviceFault::kLostContext});
  EXPECT_EQ(device(only).faults, 0u);
  EXPECT_FALSE(device(only).cools());
}

TEST_F(StepFaultsTest, WithFewDevicesTheNumberOfFaultsDecides) {
  AddReadyDevice("cpu:0", 100);
  const JobId id = Submit(10);
  Begin(id);
  for (size_t i = 1; i < kBlameFaults; ++i) {
    Fault(id);
    ASSERT_EQ(job(id).state, JobState::kBackingOff) << i;
    WaitForNextAttempt(id);
  }
  Fault(id);
  EXPECT_EQ(job(id).state, JobState::kFailed);
  EXPECT_EQ(job(id).failures, 0u);
}

TEST_F(StepFaultsTest, ACheckpointBetweenClearsTheJob) {
  for (const char* name : {"cpu:0", "cpu:1", "cpu:2", "cpu:3"}) {
    AddReadyDevice(name, 100);
  }
  const JobId id = Submit(10);
  Begin(id);
  for (uint64_t step = 1; step < 8; ++step) {
    Send(CheckpointSaved{DeviceOf(id), {id, job(id).attempt}, step});
    EXPECT_THAT(job(id).faults, IsEmpty());
    Fault(id);
    ASSERT_EQ(job(id).state, JobState::kBackingOff) << step;
    WaitForNextAttempt(id);
  }
}

TEST_F(StepFaultsTest, ABrokenDeviceSaysNothingAboutTheJob) {
  AddReadyDevice("cpu:0", 100);
  AddReadyDevice("cpu:1", 100);
  const JobId id = Submit(10);
  Begin(id);
  Fault(id, DeviceFault::kSuspect);
  EXPECT_EQ(job(id).state, JobState::kBackingOff);
  EXPECT_EQ(job(id).failures, 0u);
  EXPECT_THAT(job(id).faults, IsEmpty());
}

TEST_F(StepFaultsTest, AWorkerThatEndsWithoutAFaultIsCharged) {
  const DeviceId only = AddReadyDevice("cpu:0", 100);
  const JobId id = Submit(10);
  Begin(id);
  Send(WorkerLost{only, "signal 9"});
  EXPECT_EQ(job(id).failures, 1u);
  EXPECT_FALSE(device(only).cools());
}

TEST_F(StepFaultsTest, AGangIsSparedWhicheverRankSpeaksFirst) {
  const DeviceId first = AddReadyDevice("cpu:0", 100);
  const DeviceId second = AddReadyDevice("cpu:1", 100);
  const JobId id = SubmitGang(10, 2);
  Begin(id);
  // The peer reports before the rank that has the fault.
  EndRank(id, 0, Outcome::kInterrupted, "peer closed the connection");
  Send(WorkerLost{second, "illegal address", DeviceFault::kLostContext});
  EXPECT_EQ(job(id).state, JobState::kBackingOff);
  EXPECT_EQ(job(id).failures, 0u);
  EXPECT_THAT(job(id).faults, ElementsAre(second));
  EXPECT_FALSE(device(first).cools());
}

TEST_F(StepFaultsTest, WhatIsServedComesBackAtOnceAndRatherElsewhere) {
  const DeviceId first = AddReadyDevice("cpu:0", 100);
  const VersionId digits = Create("digits", 1, 20);
  Load(digits);
  const JobId id = Submit(10);
  Begin(id);
  ASSERT_EQ(DeviceOf(id), first);
  Send(WorkerLost{first, "illegal address", DeviceFault::kLostContext});
  // There is no other device.
  EXPECT_THAT(ActionsOf<LoadVersion>(Send(WorkerReady{.device = first})),
              SizeIs(1));
  Send(VersionLoaded{digits, first, version(digits).load});
  const DeviceId second = AddReadyDevice("cpu:1", 30);
  const VersionId other = Create("other", 1, 20);
  Send(VersionLoadRequested{other});
  EXPECT_EQ(version(other).device, second);
}

TEST_F(StepFaultsTest, BackfillReservesFromTheEndOfTheCooldownOn) {
  QueuePolicy policy;
  policy.order = Order::kBackfill;
  state.SetPolicy(policy);
  AddReadyDevice("cpu:0", 100);
  const JobId id = Submit(80);
  Begin(id);
  Fault(id);
  Wait(absl::Seconds(1));
  // A job that would end before may not start either, because the device cools
  // down.
  const JobId brief(++last_job);
  Send(
      JobSubmitted{.id = brief, .bytes = 10, .expected_run = absl::Seconds(1)});
  EXPECT_EQ(job(brief).state, JobState::kQueued);
  Wait(kFirstCooldown);
  EXPECT_TRUE(IsLive(job(id).state));
}

TEST_F(StepFaultsTest, RequeueForgetsTheFaults) {
  AddReadyDevice("cpu:0", 100);
  const JobId id = Submit(10);
  Begin(id);
  Fault(id);
  Send(JobRequeueRequested{id});
  EXPECT_THAT(job(id).faults, IsEmpty());
}

}  // namespace
}  // namespace gpupool::scheduler
