#include "scheduler/yield/serving_policy.h"

#include <gmock/gmock.h>

#include "scheduler/explain/explain.h"
#include "scheduler/explain/waiting_reason.h"
#include "scheduler/yield/version_policy.h"
#include "tests/scheduler/scheduler_fixture.h"

namespace gpupool::scheduler {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ServingPolicyTest : public SchedulerTest {
 protected:
  void SetUp() override {
    state.SetPolicy({.min_run = absl::Seconds(30), .yields_to_serving = true});
  }
  // Runs a job until after its minimum run.
  JobId Running(uint64_t bytes, int priority = 0) {
    const JobId id = Submit(bytes, priority);
    Begin(id);
    now += absl::Minutes(1);
    return id;
  }
  VersionId Loaded(uint64_t bytes) {
    const VersionId id = Create("digits", 1, bytes);
    Load(id);
    return id;
  }
  std::vector<JobId> Stopped(const StepResult& result) {
    std::vector<JobId> stopped;
    for (const StopJob& stop : ActionsOf<StopJob>(result)) {
      EXPECT_EQ(stop.reason, StopReason::kServing);
      stopped.push_back(stop.attempt.job);
    }
    return stopped;
  }
};

TEST_F(ServingPolicyTest, TrainingLeavesADeviceUnderLoadAndComesBackAfter) {
  AddReadyDevice("cpu:0", 100);
  const VersionId served = Loaded(20);
  const JobId id = Running(50);
  const StepResult told = Send(ServingLoadChanged{served, true});
  EXPECT_THAT(Stopped(told), ElementsAre(id));
  ASSERT_EQ(told.preemptions.size(), 1u);
  EXPECT_EQ(told.preemptions[0].reason, PreemptionReason::kServing);
  EXPECT_EQ(told.preemptions[0].yields_to, served);
  const StepResult stopped = End(id, Outcome::kStopped);
  EXPECT_THAT(stopped.job_changes.at(0).reason,
              HasSubstr("makes room for model 'digits' version 1"));
  EXPECT_EQ(job(id).state, JobState::kQueued);
  EXPECT_FALSE(job(id).yields_to);
  now += absl::Hours(1);
  Send(TimerFired{});
  EXPECT_EQ(job(id).state, JobState::kQueued) << "while the load lasts";
  Send(ServingLoadChanged{served, false});
  EXPECT_EQ(job(id).state, JobState::kStarting);
}

TEST_F(ServingPolicyTest, TheJobGoesBackToItsPlaceInTheQueue) {
  AddReadyDevice("cpu:0", 100);
  const VersionId served = Loaded(20);
  const JobId first = Running(80);
  const JobId second = Submit(80);
  Send(ServingLoadChanged{served, true});
  End(first, Outcome::kStopped);
  EXPECT_EQ(state.queue().begin()->job, first);
  Send(ServingLoadChanged{served, false});
  EXPECT_EQ(job(first).state, JobState::kStarting);
  EXPECT_EQ(job(second).state, JobState::kQueued);
}

TEST_F(ServingPolicyTest, TheJobMayGoOnElsewhere) {
  AddReadyDevice("cpu:0", 100);
  const VersionId served = Loaded(20);
  const JobId id = Running(50);
  const DeviceId other = AddReadyDevice("cpu:1", 100);
  Send(ServingLoadChanged{served, true});
  End(id, Outcome::kStopped);
  ASSERT_EQ(job(id).state, JobState::kStarting);
  EXPECT_EQ(DeviceOf(id), other);
}

TEST_F(ServingPolicyTest, RoomThatWasMadeForAJobIsLeftToTheModel) {
  state.SetPolicy({.order = Order::kPriority, .yields_to_serving = true});
  AddReadyDevice("cpu:0", 100);
  const VersionId served = Loaded(20);
  const JobId low = Running(50);
  const JobId high = Submit(80, 5);
  ASSERT_FALSE(job(high).reserved_devices.empty());
  Send(ServingLoadChanged{served, true});
  End(low, Outcome::kStopped);
  EXPECT_EQ(job(high).state, JobState::kQueued);
  Send(ServingLoadChanged{served, false});
  EXPECT_EQ(job(high).state, JobState::kStarting);
}

TEST_F(ServingPolicyTest, AJobHasItsMinimumRunFirst) {
  AddReadyDevice("cpu:0", 100);
  const VersionId served = Loaded(20);
  const JobId id = Submit(50);
  Send(ServingLoadChanged{served, true});
  EXPECT_FALSE(job(id).stop_sent) << "it is only starting";
  Begin(id);
  const absl::Time began = now;
  now += absl::Seconds(10);
  Send(TimerFired{});
  EXPECT_FALSE(job(id).stop_sent);
  now = began + absl::Seconds(30);
  EXPECT_THAT(Stopped(Send(TimerFired{})), ElementsAre(id));
}

TEST_F(ServingPolicyTest, ATimerEndsTheMinimumRun) {
  AddReadyDevice("cpu:0", 100);
  const VersionId served = Loaded(20);
  const JobId id = Submit(50);
  Begin(id);
  const auto timers =
      ActionsOf<SetTimer>(Send(ServingLoadChanged{served, true}));
  ASSERT_EQ(timers.size(), 1u);
  EXPECT_EQ(timers[0].time, now + absl::Seconds(30));
  now = timers[0].time;
  EXPECT_THAT(Stopped(Send(TimerFired{})), ElementsAre(id));
}

TEST_F(ServingPolicyTest, AllJobsLeaveAndAGangLeavesAsAWhole) {
  AddReadyDevice("cpu:0", 100);
  AddReadyDevice("cpu:1", 100);
  const VersionId served = Loaded(20);
  const JobId gang = SubmitGang(30, 2);
  Begin(gang);
  const JobId small = Running(10);
  const StepResult told = Send(ServingLoadChanged{served, true});
  EXPECT_THAT(Stopped(told), Contains(gang));
  EXPECT_EQ(ActionsOf<StopJob>(told).size(),
            job(small).RunsOn(*version(served).device) ? 3u : 2u);
}

TEST_F(ServingPolicyTest, NothingYieldsWhenThePolicySaysSo) {
  state.SetPolicy({});
  AddReadyDevice("cpu:0", 100);
  const VersionId served = Loaded(20);
  const JobId id = Running(50);
  EXPECT_THAT(Stopped(Send(ServingLoadChanged{served, true})), IsEmpty());
  End(id, Outcome::kSucceeded);
  EXPECT_EQ(job(Submit(50)).state, JobState::kStarting);
}

TEST_F(ServingPolicyTest, AnUnloadedVersionIsUnderLoadNoMore) {
  const DeviceId device = AddReadyDevice("cpu:0", 100);
  const VersionId served = Loaded(20);
  Send(ServingLoadChanged{served, true});
  const JobId id = Submit(50);
  EXPECT_EQ(job(id).state, JobState::kQueued);
  Send(VersionUnloadRequested{served});
  EXPECT_EQ(job(id).state, JobState::kStarting);
  Send(VersionDrained{served});
  Send(VersionUnloaded{served, device});
  EXPECT_TRUE(Send(ServingLoadChanged{served, true}).stale);
  EXPECT_TRUE(state.under_load().empty());
}

TEST_F(ServingPolicyTest, WhatWasReservedThereIsGivenUp) {
  state.SetPolicy({.order = Order::kPriority, .yields_to_serving = true});
  const DeviceId device = AddReadyDevice("cpu:0", 100);
  const VersionId served = Loaded(20);
  const JobId low = Running(50);
  const JobId high = Submit(50, 5);
  ASSERT_THAT(job(high).reserved_devices, ElementsAre(device));
  Send(ServingLoadChanged{served, true});
  EXPECT_THAT(job(high).reserved_devices, IsEmpty());
  End(low, Outcome::kStopped);
  EXPECT_EQ(job(high).state, JobState::kQueued);
  Send(ServingLoadChanged{served, false});
  EXPECT_EQ(job(high).state, JobState::kStarting);
}

TEST_F(ServingPolicyTest, PeopleAreToldWhyAJobWaits) {
  AddReadyDevice("cpu:0", 100);
  const VersionId served = Loaded(20);
  Send(ServingLoadChanged{served, true});
  const JobId id = Submit(50);
  EXPECT_EQ(WaitingReason(state, job(id)),
            "waits for a device: cpu:0 is left to model 'digits' version 1, "
            "which is under load; it is next");
  const Explanation explained = Explain(state, job(id), now);
  EXPECT_THAT(explained.devices.at(0).obstacle,
              HasSubstr("'digits' version 1 is under load here"));
  EXPECT_THAT(explained.changes,
              Contains("the load on model 'digits' version 1 goes down"));
}

// ------------------------------------------------------- bytes for a version

TEST_F(ServingPolicyTest, AVersionGetsBytesOfAJobThatFitsElsewhere) {
  const DeviceId first = AddReadyDevice("cpu:0", 100);
  const JobId id = Running(80);
  const DeviceId second = AddReadyDevice("cpu:1", 100);
  const JobId other = Running(80);
  ASSERT_EQ(DeviceOf(other), second);
  const VersionId wanted = Create("digits", 1, 50);
  const StepResult told = Send(VersionLoadRequested{wanted});
  ASSERT_THAT(Stopped(told), ElementsAre(id));
  EXPECT_EQ(version(wanted).error,
            "waits for 50 B on cpu:0, where training makes room");
  End(id, Outcome::kStopped);
  EXPECT_EQ(version(wanted).device, first);
  EXPECT_EQ(job(id).state, JobState::kQueued);
  End(other, Outcome::kSucceeded);
  EXPECT_EQ(DeviceOf(id), second);
}

TEST_F(ServingPolicyTest, AVersionLocksNoJobOut) {
  AddReadyDevice("cpu:0", 100);
  const JobId id = Running(80);
  const VersionId wanted = Create("digits", 1, 50);
  EXPECT_THAT(Stopped(Send(VersionLoadRequested{wanted})), IsEmpty());
  EXPECT_THAT(version(wanted).error, HasSubstr("wait for a job to end"));
  End(id, Outcome::kSucceeded);
  EXPECT_EQ(version(wanted).state, VersionState::kLoading);
  EXPECT_TRUE(version(wanted).device);
}

TEST_F(ServingPolicyTest, TheFewestJobsStopTheLowestPriorityFirst) {
  AddReadyDevice("cpu:0", 100);
  const JobId high = Running(40, 1);
  const JobId low = Running(40);
  const VersionId wanted = Create("digits", 1, 40);
  EXPECT_THAT(Stopped(Send(VersionLoadRequested{wanted})), ElementsAre(low));
  End(low, Outcome::kStopped);
  EXPECT_TRUE(version(wanted).device);
  EXPECT_FALSE(job(high).stop_sent);
}

TEST_F(ServingPolicyTest, AVersionWaitsForTheMinimumRun) {
  AddReadyDevice("cpu:0", 100);
  AddDevice("cpu:1", 100);
  const JobId id = Submit(60);
  Begin(id);
  const VersionId wanted = Create("digits", 1, 50);
  const StepResult told = Send(VersionLoadRequested{wanted});
  EXPECT_THAT(Stopped(told), IsEmpty());
  const auto timers = ActionsOf<SetTimer>(told);
  ASSERT_EQ(timers.size(), 1u);
  Send(WorkerReady{.device = DeviceId(1)});
  EXPECT_EQ(version(wanted).device, DeviceId(1)) << "there is room now";
}

TEST_F(ServingPolicyTest, TwoVersionsTakeDifferentDevices) {
  AddReadyDevice("cpu:0", 100);
  AddReadyDevice("cpu:1", 100);
  AddReadyDevice("cpu:2", 100);
  std::vector<JobId> jobs;
  for (int i = 0; i < 3; ++i) jobs.push_back(Running(80));
  const VersionId first = Create("a", 1, 50);
  const VersionId second = Create("b", 1, 50);
  EXPECT_EQ(Stopped(Send(VersionLoadRequested{first})).size(), 1u);
  EXPECT_EQ(Stopped(Send(VersionLoadRequested{second})).size(), 1u);
}

TEST(ModelTextForTest, TheModelOfAnotherTenantHasNoName) {
  Version version;
  version.model = "digits";
  version.number = 1;
  EXPECT_EQ(ModelTextFor(version, "b"), "model 'digits' version 1");
  version.tenant = "a";
  EXPECT_EQ(ModelTextFor(version, "a"), "model 'digits' version 1");
  EXPECT_EQ(ModelTextFor(version, "b"), "a model of another tenant");
}

}  // namespace
}  // namespace gpupool::scheduler
