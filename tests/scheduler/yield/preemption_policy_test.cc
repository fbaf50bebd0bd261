#include "scheduler/yield/preemption_policy.h"

#include <gmock/gmock.h>

#include "scheduler/state/state_editor.h"
#include "tests/scheduler/scheduler_fixture.h"

namespace gpupool::scheduler {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// Devices of 100 bytes. A job of 100 has a device to itself.
class PreemptionPolicyTest : public SchedulerTest {
 protected:
  PreemptionPolicyTest() {
    state.SetPolicy(
        {.order = Order::kLeastAttained, .restart_cost = absl::Seconds(60)});
  }

  JobId Run(uint32_t devices = 1) {
    const JobId id = SubmitGang(100, devices);
    Begin(id);
    return id;
  }
  // Reports that all ranks have saved a checkpoint and stopped.
  void Stopped(JobId id) {
    const uint32_t ranks = job(id).device_count;
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      EndRank(id, rank, Outcome::kStopped);
    }
  }
  std::vector<JobId> ToldToStop() {
    std::vector<JobId> jobs;
    for (const auto& [id, job] : state.jobs()) {
      if (job.stop_sent) jobs.push_back(id);
    }
    return jobs;
  }
};

TEST_F(PreemptionPolicyTest, AYoungJobTakesThePlaceOfAnOldOne) {
  AddNodes(1, 1);
  const JobId old = Run();
  now += absl::Hours(1);
  const JobId young = SubmitGang(100, 1);
  EXPECT_EQ(job(old).stop_sent, StopReason::kPreempted);
  EXPECT_THAT(job(young).reserved_devices, SizeIs(1));
  Stopped(old);
  EXPECT_EQ(job(old).state, JobState::kQueued);
  EXPECT_EQ(job(old).failures, 0u);
  EXPECT_EQ(job(old).attained, absl::Hours(1));
  EXPECT_EQ(job(young).state, JobState::kStarting);
  EXPECT_THAT(job(young).reserved_devices, IsEmpty());
}

// They were told to stop, so their bytes become free without a preemption.
TEST_F(PreemptionPolicyTest, TheBytesOfStraysAreWaitedFor) {
  AddNodes(1, 2);
  Run();
  now += absl::Hours(1);
  Device& other = *StateEditor(state).FindDevice(DeviceId(1));
  const AttemptRef stray{JobId(70), 1};
  StateEditor(state).AddStray(other, stray, 100);
  const JobId young = SubmitGang(100, 1);
  EXPECT_THAT(ToldToStop(), IsEmpty());
  EXPECT_THAT(job(young).reserved_devices, ElementsAre(DeviceId(1)));
  Send(AttemptEnded{DeviceId(1), stray, Outcome::kStopped, ""});
  EXPECT_EQ(DeviceOf(young), DeviceId(1));
}

TEST_F(PreemptionPolicyTest, FirstComeNeverTakesAPlace) {
  state.SetPolicy({});
  AddNodes(1, 1);
  Run();
  now += absl::Hours(10);
  SubmitGang(100, 1);
  EXPECT_THAT(ToldToStop(), IsEmpty());
}

TEST_F(PreemptionPolicyTest, ByPriorityAloneAgeDoesNotMatter) {
  state.SetPolicy({.order = Order::kPriority});
  AddNodes(1, 1);
  const JobId low = Run();
  now += absl::Hours(10);
  SubmitGang(100, 1);
  EXPECT_THAT(ToldToStop(), IsEmpty());
  const JobId high = SubmitGang(100, 1, /*priority=*/1);
  EXPECT_THAT(ToldToStop(), ElementsAre(low));
  Stopped(low);
  EXPECT_EQ(job(high).state, JobState::kStarting);
}

TEST_F(PreemptionPolicyTest, JobsOfSimilarAgeDoNotAlternate) {
  AddNodes(1, 1);
  Run();
  now += absl::Minutes(15);  // not twice the first ten minutes
  SubmitGang(100, 1);
  EXPECT_THAT(ToldToStop(), IsEmpty());
}

TEST_F(PreemptionPolicyTest, TheOldJobGivesWayWhenItsTimeHasCome) {
  AddNodes(1, 1);
  const JobId old = Run();
  now += absl::Minutes(15);
  SubmitGang(100, 1);
  absl::Time timer = absl::InfiniteFuture();
  for (int i = 0; i < 20 && ToldToStop().empty(); ++i) {
    timer = state.NextStandingChange();
    ASSERT_NE(timer, absl::InfiniteFuture());
    now = timer;
    Send(TimerFired{});
  }
  EXPECT_THAT(ToldToStop(), ElementsAre(old));
  EXPECT_LT(now - absl::UnixEpoch(), absl::Minutes(30));
}

TEST_F(PreemptionPolicyTest, AMinimumRunIsKept) {
  state.SetPolicy({.order = Order::kLeastAttained, .min_run = absl::Hours(2)});
  AddNodes(1, 1);
  Run();
  now += absl::Hours(1);
  SubmitGang(100, 1);
  EXPECT_THAT(ToldToStop(), IsEmpty());
}

TEST_F(PreemptionPolicyTest, TheOldestGivesWay) {
  AddNodes(1, 2);
  const JobId oldest = Run();
  now += absl::Hours(5);
  Run();
  now += absl::Hours(1);
  SubmitGang(100, 1);
  EXPECT_THAT(ToldToStop(), ElementsAre(oldest));
}

TEST_F(PreemptionPolicyTest, AHigherPriorityGoesFirstWhateverTheAge) {
  AddNodes(1, 1);
  const JobId running = Run();
  SubmitGang(100, 1, 5);
  EXPECT_THAT(ToldToStop(), ElementsAre(running));
}

TEST_F(PreemptionPolicyTest, ALowerPriorityWaitsWhateverTheAge) {
  AddNodes(1, 1);
  const JobId running = SubmitGang(100, 1, 5);
  Begin(running);
  now += absl::Hours(100);
  SubmitGang(100, 1);
  EXPECT_THAT(ToldToStop(), IsEmpty());
}

TEST_F(PreemptionPolicyTest, RoomIsMadeOnce) {
  AddNodes(1, 2);
  Run();
  Run();
  now += absl::Hours(1);
  SubmitGang(100, 1);
  EXPECT_THAT(ToldToStop(), SizeIs(1));
  Send(TimerFired{});
  EXPECT_THAT(ToldToStop(), SizeIs(1));
}

TEST_F(PreemptionPolicyTest, NobodyElseTakesReservedDevices) {
  AddNodes(1, 2);
  const JobId first = Run();
  const JobId second = Run();
  now += absl::Hours(1);
  const JobId gang = SubmitGang(100, 2);
  EXPECT_THAT(ToldToStop(), ElementsAre(first, second));
  Stopped(first);
  const JobId small = SubmitGang(100, 1);
  EXPECT_EQ(job(small).state, JobState::kQueued);
  Stopped(second);
  EXPECT_EQ(job(gang).state, JobState::kStarting);
}

TEST_F(PreemptionPolicyTest, ACancelledJobGivesItsReservationBack) {
  AddNodes(1, 1);
  const JobId old = Run();
  now += absl::Hours(1);
  const JobId young = SubmitGang(100, 1);
  Send(JobCancelRequested{young});
  Stopped(old);
  EXPECT_EQ(job(old).state, JobState::kStarting) << "it goes on";
}

TEST_F(PreemptionPolicyTest, OnlyAsMuchIsTakenAsIsNeeded) {
  AddNodes(1, 1);
  const JobId first = Submit(50);
  const JobId second = Submit(50);
  Begin(first);
  Begin(second);
  now += absl::Hours(1);
  Submit(40);
  EXPECT_THAT(ToldToStop(), SizeIs(1));
}

TEST_F(PreemptionPolicyTest, AGangGetsDevicesOfOneMachine) {
  AddNodes(2, 2);
  Run();
  Run();
  now += absl::Hours(10);
  const JobId third = Run();
  const JobId fourth = Run();
  now += absl::Minutes(1);
  SubmitGang(100, 2);
  EXPECT_EQ(ToldToStop(), (std::vector<JobId>{JobId(1), JobId(2)}));
  EXPECT_FALSE(job(third).stop_sent || job(fourth).stop_sent);
}

// Each machine has one free device. A job on two devices needs another job to
// move.
TEST_F(PreemptionPolicyTest, AJobMovesWhereScatteredDevicesWouldDo) {
  AddNodes(2, 2);
  std::vector<JobId> jobs;
  for (int i = 0; i < 4; ++i) jobs.push_back(Run());
  now += absl::Minutes(15);
  for (size_t i : {size_t{0}, size_t{2}}) End(jobs[i], Outcome::kSucceeded);
  const JobId gang = SubmitGang(100, 2);
  ASSERT_EQ(job(gang).state, JobState::kQueued);
  ASSERT_THAT(ToldToStop(), SizeIs(1));
  const JobId moved = ToldToStop().front();
  EXPECT_EQ(job(moved).stop_sent, StopReason::kMoved);
  Stopped(moved);
  EXPECT_EQ(job(moved).state, JobState::kStarting) << "on the other machine";
  EXPECT_EQ(job(gang).state, JobState::kStarting);
}

TEST_F(PreemptionPolicyTest, AJobThatHasJustStartedDoesNotMove) {
  AddNodes(2, 2);
  std::vector<JobId> jobs;
  for (int i = 0; i < 4; ++i) jobs.push_back(Run());
  now += absl::Minutes(5);
  for (size_t i : {size_t{0}, size_t{2}}) End(jobs[i], Outcome::kSucceeded);
  SubmitGang(100, 2);
  EXPECT_THAT(ToldToStop(), IsEmpty());
}

TEST_F(PreemptionPolicyTest, WholeMachinesAreTakenForWhatNoneIsLargeEnough) {
  AddNodes(3, 2);
  for (int i = 0; i < 6; ++i) Run();
  now += absl::Hours(1);
  const JobId large = SubmitGang(100, 4);
  EXPECT_THAT(ToldToStop(), SizeIs(4));
  for (JobId id : ToldToStop()) Stopped(id);
  EXPECT_EQ(job(large).state, JobState::kStarting);
}

TEST_F(PreemptionPolicyTest, ALostWorkerEndsAReservation) {
  AddNodes(2, 1);
  const JobId first = Run();
  Run();
  now += absl::Hours(1);
  const JobId young = SubmitGang(100, 1);
  ASSERT_THAT(ToldToStop(), ElementsAre(first));
  Send(WorkerLost{DeviceOf(first), "gone"});
  EXPECT_THAT(ToldToStop(), ElementsAre(JobId(2))) << "room elsewhere";
  Stopped(JobId(2));
  EXPECT_EQ(job(young).state, JobState::kStarting);
}

}  // namespace
}  // namespace gpupool::scheduler
