// Attempts that have left their devices while their checkpoints are written.
#include "gmock/gmock.h"
#include "scheduler/explain/explain.h"
#include "scheduler/explain/waiting_reason.h"
#include "tests/scheduler/scheduler_fixture.h"

namespace gpupool::scheduler {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

class StepSavingTest : public SchedulerTest {
 protected:
  StepSavingTest() { Send(WorkerReady{.device = device}); }
  uint64_t Committed() const {
    return state.devices().at(device).committed_bytes();
  }
  // Returns a job that filled the device, was told to stop, and saves.
  JobId Saving() {
    const JobId id = Submit(80);
    Begin(id);
    Send(CheckpointSaved{device, {id, 1}, 20});
    Send(JobRequeueRequested{id});
    End(id, Outcome::kSaving);
    return id;
  }
  StepResult EndSaved(JobId id, Outcome outcome) {
    return Send(AttemptEnded{device, {id, 1}, outcome, "disk is full"});
  }

  const DeviceId device = state.AddDevice("cpu:0", "cpu", 100);
};

TEST_F(StepSavingTest, TheDeviceIsGivenOnAtOnceAndTheJobWaitsForTheDisk) {
  const JobId id = Submit(80);
  Begin(id);
  const JobId next = Submit(70);
  EXPECT_EQ(job(next).state, JobState::kQueued);
  Send(CheckpointSaved{device, {id, 1}, 20});
  now += absl::Seconds(5);
  Send(JobHoldRequested{id});
  const StepResult left = End(id, Outcome::kSaving);
  ASSERT_THAT(ActionsOf<StartJob>(left), SizeIs(1));
  EXPECT_EQ(ActionsOf<StartJob>(left)[0].attempt, (AttemptRef{next, 1}));
  EXPECT_EQ(Committed(), 70u);
  EXPECT_EQ(job(id).state, JobState::kRunning);
  EXPECT_EQ(WaitingReason(state, job(id)),
            "its checkpoint is being written to disk; it holds no device any "
            "more");
  EXPECT_EQ(Explain(state, job(id), now).waits_for,
            WaitingReason(state, job(id)));
  now += absl::Seconds(60);
  Send(CheckpointSaved{device, {id, 1}, 33});
  const StepResult saved = EndSaved(id, Outcome::kStopped);
  EXPECT_EQ(job(id).attained, absl::Seconds(5));
  EXPECT_EQ(job(id).state, JobState::kQueued);
  EXPECT_EQ(saved.job_changes.back().reason,
            "held; when it is released it resumes from step 33");
  EXPECT_EQ(Committed(), 70u);
}

TEST_F(StepSavingTest, ItStartsNowhereBeforeItsCheckpointIsOnDisk) {
  const JobId id = Saving();
  const DeviceId other = state.AddDevice("cpu:1", "cpu", 100);
  EXPECT_THAT(ActionsOf<StartJob>(Send(WorkerReady{.device = other})),
              IsEmpty());
  Send(CheckpointSaved{device, {id, 1}, 33});
  const StepResult saved = EndSaved(id, Outcome::kStopped);
  ASSERT_THAT(ActionsOf<StartJob>(saved), SizeIs(1));
  EXPECT_EQ(ActionsOf<StartJob>(saved)[0].attempt, (AttemptRef{id, 2}));
  EXPECT_EQ(job(id).checkpoint_step, 33u);
}

TEST_F(StepSavingTest, WhatCameTwiceChangesNothing) {
  const JobId id = Saving();
  EXPECT_TRUE(EndSaved(id, Outcome::kSaving).stale);
  EndSaved(id, Outcome::kStopped);
  EXPECT_EQ(job(id).attempt, 2u);
  EXPECT_TRUE(EndSaved(id, Outcome::kStopped).stale);
  EXPECT_TRUE(EndSaved(id, Outcome::kSaving).stale);
  EXPECT_EQ(job(id).state, JobState::kStarting);
}

TEST_F(StepSavingTest, AKilledWorkerCostsStepsAndNoAttempt) {
  const JobId id = Saving();
  const StepResult lost = Send(WorkerLost{device, "signal 9"});
  EXPECT_EQ(job(id).state, JobState::kQueued);
  EXPECT_EQ(lost.job_changes.back().reason,
            "queued again as asked; resumes from step 20; what it did after "
            "that is lost: lost the worker of cpu:0: signal 9");
  EXPECT_EQ(job(id).failures, 0u);
  // Late messages of this attempt are ignored, because it has a successor.
  Send(WorkerReady{.device = device});
  EXPECT_EQ(job(id).attempt, 2u);
  EXPECT_TRUE(Send(CheckpointSaved{device, {id, 1}, 33}).stale);
}

TEST_F(StepSavingTest, AFullDiskIsSaidAndTheJobGoesOnFromTheOneBefore) {
  const JobId id = Submit(80);
  Begin(id);
  Send(CheckpointSaved{device, {id, 1}, 20});
  End(id, Outcome::kSaving);  // by itself, after its worker was told to end
  const StepResult full = EndSaved(id, Outcome::kInterrupted);
  EXPECT_EQ(job(id).state, JobState::kBackingOff);
  EXPECT_THAT(full.job_changes.back().reason,
              ::testing::StartsWith("disk is full; tries again in"));
  EXPECT_EQ(job(id).checkpoint_step, 20u);
  EXPECT_EQ(job(id).failures, 1u);
}

TEST_F(StepSavingTest, AFaultOfTheDeviceIsNotThatOfAJobThatHasLeftIt) {
  const JobId id = Saving();
  Send(WorkerLost{device, "illegal address", DeviceFault::kLostContext});
  EXPECT_EQ(job(id).state, JobState::kQueued);
  EXPECT_THAT(job(id).faults, IsEmpty());
}

TEST_F(StepSavingTest, ACancelWaitsForNoDisk) {
  const JobId id = Saving();
  Send(JobCancelRequested{id});
  EXPECT_EQ(job(id).state, JobState::kCancelled);
  EXPECT_TRUE(Send(CheckpointSaved{device, {id, 1}, 33}).stale);
  EXPECT_TRUE(EndSaved(id, Outcome::kStopped).stale);
  // Its worker lists it. It has no bytes to free.
  EXPECT_THAT(ActionsOf<StopJob>(
                  Send(WorkerReady{.device = device, .left = {{id, 1}}})),
              IsEmpty());
}

TEST_F(StepSavingTest, AGangThatIsCancelledWaitsForRanksAndForNoDisk) {
  const DeviceId other = state.AddDevice("cpu:1", "cpu", 100);
  Send(WorkerReady{.device = other});
  const JobId gang = SubmitGang(80, 2);
  Begin(gang);
  Send(JobRequeueRequested{gang});
  EndRank(gang, 0, Outcome::kSaving);
  Send(JobCancelRequested{gang});
  EXPECT_EQ(job(gang).state, JobState::kCancelling);
  EndRank(gang, 1, Outcome::kStopped);
  EXPECT_EQ(job(gang).state, JobState::kCancelled);
}

TEST_F(StepSavingTest, WhatComesMeanwhileTakesEffectWithItsEnd) {
  const JobId held = Saving();
  Send(JobHoldRequested{held});
  EndSaved(held, Outcome::kStopped);
  EXPECT_EQ(job(held).state, JobState::kQueued);
  EXPECT_FALSE(job(held).MayStart());
}

TEST_F(StepSavingTest, ADrainWaitsForTheDisk) {
  const JobId id = Saving();
  Send(DrainRequested{true});
  EXPECT_THAT(state.saving(), SizeIs(1));
  const StepResult saved = EndSaved(id, Outcome::kStopped);
  EXPECT_THAT(state.saving(), IsEmpty());
  EXPECT_EQ(saved.job_changes.back().reason,
            "stopped by a drain; resumes from step 20");
}

TEST_F(StepSavingTest, WritingBehindIsPartOfWhatARestartCosts) {
  const JobId id = Submit(80);
  for (uint32_t attempt = 1; attempt <= 4; ++attempt) {
    Send(AttemptStarted{device, {id, attempt}, absl::Seconds(1)});
    Send(JobRequeueRequested{id});
    End(id, Outcome::kSaving);
    Send(CheckpointSaved{
        device, {id, attempt}, attempt, absl::Seconds(2), absl::Seconds(30)});
    Send(AttemptEnded{device, {id, attempt}, Outcome::kStopped, ""});
  }
  EXPECT_EQ(state.restart_cost(), absl::Seconds(33));
}

TEST_F(StepSavingTest, AWorkerThatComesBackIsAskedForNothing) {
  const JobId id = Saving();
  const JobId next = Submit(10);
  EXPECT_EQ(job(next).state, JobState::kStarting);
  for (const WorkerReady& ready :
       {WorkerReady{
            .device = device, .running = {{next, 1}}, .left = {{id, 1}}},
        // The report of its end is under way.
        WorkerReady{.device = device, .running = {{next, 1}, {id, 1}}}}) {
    EXPECT_THAT(ActionsOf<StopJob>(Send(ready)), IsEmpty());
    EXPECT_EQ(Committed(), 10u);
    EXPECT_EQ(job(id).wake_time, absl::InfiniteFuture());
  }
}

TEST_F(StepSavingTest, OneThatNobodyKnowsOfIsGivenUpAfterAWhile) {
  const JobId id = Saving();
  Send(WorkerReady{.device = device});
  EXPECT_EQ(job(id).attempt, 1u);
  now = job(id).wake_time;
  Send(TimerFired{});
  EXPECT_EQ(job(id).attempt, 2u);
  EXPECT_EQ(job(id).failures, 0u);
}

TEST_F(StepSavingTest, RanksThatHaveStoppedKeepNoDeviceBackFromOthers) {
  const DeviceId other = state.AddDevice("cpu:1", "cpu", 100);
  Send(WorkerReady{.device = other});
  const JobId gang = SubmitGang(80, 2);
  Begin(gang);
  const JobId next = SubmitGang(70, 2);
  Send(JobHoldRequested{gang});
  EXPECT_THAT(ActionsOf<StartJob>(EndRank(gang, 0, Outcome::kSaving)),
              IsEmpty());
  // With the last rank, both devices are freed together.
  const StepResult left = EndRank(gang, 1, Outcome::kStopped);
  EXPECT_THAT(ActionsOf<StartJob>(left), SizeIs(2));
  EXPECT_EQ(job(next).state, JobState::kStarting);
  EXPECT_EQ(job(gang).state, JobState::kRunning);
  EndRank(gang, 0, Outcome::kStopped);
  EXPECT_EQ(job(gang).state, JobState::kQueued);
}

TEST_F(StepSavingTest, ARestoredOneTakesNoBytes) {
  Job row;
  row.id = JobId(5);
  row.bytes = 80;
  row.wanted_device = "cpu";
  row.state = JobState::kRunning;
  row.attempt = 1;
  row.ranks = {{device, Outcome::kSaving}};
  state.RestoreJob(row);
  EXPECT_EQ(Committed(), 0u);
  Send(WorkerReady{.device = device, .left = {{row.id, 1}}});
  Send(CheckpointSaved{device, {row.id, 1}, 7});
  Send(AttemptEnded{device, {row.id, 1}, Outcome::kStopped, ""});
  EXPECT_EQ(job(row.id).checkpoint_step, 7u);
  EXPECT_EQ(job(row.id).state, JobState::kBackingOff);
}

}  // namespace
}  // namespace gpupool::scheduler
