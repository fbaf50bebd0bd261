#include <gmock/gmock.h>

#include "tests/scheduler/scheduler_fixture.h"

namespace gpupool::scheduler {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

class StepJobsTest : public SchedulerTest {
 protected:
  void SetUp() override { device = AddReadyDevice("cpu:0", 100); }
  void FireTimerAt(absl::Time time) {
    now = time;
    Send(TimerFired{});
  }
  DeviceId device;
};

TEST_F(StepJobsTest, StartsAJobWithItsPlannedBytesAsLimit) {
  const StepResult result = Send(JobSubmitted{.id = JobId(1), .bytes = 42});
  const auto starts = ActionsOf<StartJob>(result);
  ASSERT_THAT(starts, SizeIs(1));
  EXPECT_EQ(starts[0].attempt, (AttemptRef{JobId(1), 1}));
  EXPECT_EQ(starts[0].limit_bytes, 42u);
  EXPECT_EQ(state.devices().at(device).committed_bytes(), 42u);
}

TEST_F(StepJobsTest, RunsAfterTheWorkerHasBegunAndEndsWithItsWord) {
  const JobId id = Submit(10);
  Begin(id);
  EXPECT_EQ(job(id).state, JobState::kRunning);
  End(id, Outcome::kSucceeded);
  EXPECT_EQ(job(id).state, JobState::kSucceeded);
  EXPECT_EQ(state.devices().at(device).committed_bytes(), 0u);
}

TEST_F(StepJobsTest, TheSameSubmissionTwiceIsOne) {
  Submit(10);
  EXPECT_TRUE(Send(JobSubmitted{.id = JobId(1), .bytes = 10}).stale);
}

TEST_F(StepJobsTest, AJobsOwnFailureIsNotRetried) {
  const JobId id = Submit(10);
  const StepResult result = End(id, Outcome::kFailed, "loss is NaN at step 7");
  EXPECT_EQ(job(id).state, JobState::kFailed);
  EXPECT_EQ(result.job_changes.back().reason, "loss is NaN at step 7");
}

TEST_F(StepJobsTest, AnInterruptedJobBacksOffAndStartsAgainInTime) {
  const JobId id = Submit(10);
  End(id, Outcome::kInterrupted, "device fault");
  EXPECT_EQ(job(id).state, JobState::kBackingOff);
  EXPECT_EQ(job(id).wake_time, now + absl::Seconds(1));
  FireTimerAt(now + absl::Milliseconds(999));
  EXPECT_EQ(job(id).state, JobState::kBackingOff);
  FireTimerAt(now + absl::Milliseconds(1));
  EXPECT_EQ(job(id).state, JobState::kStarting);
  EXPECT_EQ(job(id).attempt, 2u);
}

TEST_F(StepJobsTest, AnUntriedJobStartsAfterItsRehearsal) {
  const JobId id(1);
  JobSubmitted submitted{.untried = true, .id = id, .bytes = 10};
  EXPECT_THAT(ActionsOf<StartJob>(Send(submitted)), SizeIs(0));
  EXPECT_EQ(job(id).state, JobState::kQueued);
  EXPECT_THAT(ActionsOf<StartJob>(Send(JobRehearsed{id, absl::OkStatus()})),
              SizeIs(1));
  EXPECT_TRUE(Send(JobRehearsed{id, absl::InternalError("late")}).stale);
  // One that could not be tried starts as well.
  submitted.id = JobId(2);
  Send(submitted);
  EXPECT_THAT(ActionsOf<StartJob>(
                  Send(JobRehearsed{JobId(2), absl::UnavailableError("busy")})),
              SizeIs(1));
}

TEST_F(StepJobsTest, AJobThatFailsItsRehearsalGetsNoDevice) {
  const JobId id(1);
  Send(JobSubmitted{.untried = true, .id = id, .bytes = 10});
  const StepResult result =
      Send(JobRehearsed{id, absl::InvalidArgumentError("signal 6")});
  EXPECT_EQ(job(id).state, JobState::kFailed);
  EXPECT_EQ(job(id).attempt, 0u);
  EXPECT_EQ(result.job_changes.back().reason,
            "failed before it got a device: signal 6");
}

TEST_F(StepJobsTest, AnUntriedJobLetsOthersPassAndMayBeHeldAndCancelled) {
  const JobId id(1);
  Send(JobSubmitted{.untried = true, .id = id, .bytes = 10});
  const JobId other(2);
  EXPECT_THAT(ActionsOf<StartJob>(Send(JobSubmitted{.id = other, .bytes = 10})),
              SizeIs(1));
  Send(JobHoldRequested{id});
  Send(JobRehearsed{id, absl::OkStatus()});
  EXPECT_EQ(job(id).state, JobState::kQueued);
  EXPECT_THAT(ActionsOf<StartJob>(Send(JobReleaseRequested{id})), SizeIs(1));
  Send(JobSubmitted{.untried = true, .id = JobId(3), .bytes = 10});
  Send(JobCancelRequested{JobId(3)});
  EXPECT_EQ(job(JobId(3)).state, JobState::kCancelled);
  EXPECT_TRUE(Send(JobRehearsed{JobId(3), absl::OkStatus()}).stale);
}

TEST_F(StepJobsTest, GivesUpAfterMaxAttempts) {
  const JobId id(1);
  Send(JobSubmitted{.max_attempts = 2, .id = id, .bytes = 10});
  End(id, Outcome::kInterrupted, "device fault");
  FireTimerAt(job(id).wake_time);
  const StepResult result = End(id, Outcome::kInterrupted, "device fault");
  EXPECT_EQ(job(id).state, JobState::kFailed);
  EXPECT_EQ(result.job_changes.back().reason,
            "gave up after 2 of 2 attempts: device fault");
}

TEST_F(StepJobsTest, BackoffDoublesUpToALimit) {
  EXPECT_EQ(Backoff(absl::Seconds(1), 1), absl::Seconds(1));
  EXPECT_EQ(Backoff(absl::Seconds(1), 2), absl::Seconds(2));
  EXPECT_EQ(Backoff(absl::Seconds(1), 4), absl::Seconds(8));
  EXPECT_EQ(Backoff(absl::Seconds(1), 4000000000u), kLongestBackoff);
  EXPECT_EQ(Backoff(absl::InfiniteDuration(), 3), kLongestBackoff);
  EXPECT_EQ(Backoff(absl::Seconds(-5), 3), absl::ZeroDuration());
}

TEST_F(StepJobsTest, CancelEndsAJobThatDoesNotRunAtOnce) {
  Submit(100);
  const JobId queued = Submit(100);
  EXPECT_THAT(Send(JobCancelRequested{queued}).actions, SizeIs(0));
  EXPECT_EQ(job(queued).state, JobState::kCancelled);
  const JobId first(1);
  End(first, Outcome::kInterrupted);
  Send(JobCancelRequested{first});
  EXPECT_EQ(job(first).state, JobState::kCancelled);
}

TEST_F(StepJobsTest, CancelStopsALiveAttemptAndWaitsForTheWorker) {
  const JobId id = Submit(10);
  Begin(id);
  const auto stops = ActionsOf<StopJob>(Send(JobCancelRequested{id}));
  ASSERT_THAT(stops, SizeIs(1));
  EXPECT_EQ(stops[0].reason, StopReason::kCancelled);
  EXPECT_EQ(job(id).state, JobState::kCancelling);
  EXPECT_EQ(state.devices().at(device).committed_bytes(), 10u);
  EXPECT_TRUE(Send(JobCancelRequested{id}).stale);
  End(id, Outcome::kStopped);
  EXPECT_EQ(job(id).state, JobState::kCancelled);
}

TEST_F(StepJobsTest, ACancelThatWasAcknowledgedWinsOverSuccess) {
  const JobId id = Submit(10);
  Begin(id);
  Send(JobCancelRequested{id});
  End(id, Outcome::kSucceeded);
  EXPECT_EQ(job(id).state, JobState::kCancelled);
}

TEST_F(StepJobsTest, CancellingAnEndedOrUnknownJobChangesNothing) {
  const JobId id = Submit(10);
  End(id, Outcome::kSucceeded);
  EXPECT_TRUE(Send(JobCancelRequested{id}).stale);
  EXPECT_EQ(job(id).state, JobState::kSucceeded);
  EXPECT_TRUE(Send(JobCancelRequested{JobId(99)}).stale);
}

TEST_F(StepJobsTest, MessagesOfAnEarlierAttemptChangeNothing) {
  const JobId id = Submit(10);
  End(id, Outcome::kInterrupted);
  FireTimerAt(job(id).wake_time);
  ASSERT_EQ(job(id).attempt, 2u);
  const AttemptRef old{id, 1};
  EXPECT_TRUE(Send(AttemptStarted{device, old}).stale);
  EXPECT_TRUE(Send(ProgressMade{device, old, 5}).stale);
  EXPECT_TRUE(Send(CheckpointSaved{device, old, 5}).stale);
  EXPECT_TRUE(Send(AttemptEnded{device, old, Outcome::kSucceeded, ""}).stale);
  EXPECT_EQ(job(id).state, JobState::kStarting);
  EXPECT_EQ(job(id).checkpoint_step, 0u);
}

TEST_F(StepJobsTest, MessagesFromAnotherDeviceChangeNothing) {
  const DeviceId other = AddReadyDevice("cpu:1", 100);
  const JobId id = Submit(10);
  ASSERT_EQ(DeviceOf(id), device);
  EXPECT_TRUE(
      Send(AttemptEnded{other, {id, 1}, Outcome::kSucceeded, ""}).stale);
  EXPECT_EQ(job(id).state, JobState::kStarting);
}

TEST_F(StepJobsTest, AttemptZeroOfAJobThatNeverRanIsNoAttempt) {
  Submit(100);
  const JobId waiting = Submit(100);
  EXPECT_TRUE(
      Send(AttemptEnded{device, {waiting, 0}, Outcome::kSucceeded, ""}).stale);
  EXPECT_TRUE(Send(CheckpointSaved{device, {waiting, 0}, 3}).stale);
  EXPECT_EQ(job(waiting).state, JobState::kQueued);
}

TEST_F(StepJobsTest, ALateReportOfTheLastAttemptsEndStillCounts) {
  const JobId id = Submit(10);
  Begin(id);
  Send(WorkerLost{device, "killed"});
  ASSERT_EQ(job(id).state, JobState::kBackingOff);
  Send(CheckpointSaved{device, {id, 1}, 100});
  Send(AttemptEnded{device, {id, 1}, Outcome::kSucceeded, ""});
  EXPECT_EQ(job(id).state, JobState::kSucceeded);
  EXPECT_EQ(job(id).checkpoint_step, 100u);
}

TEST_F(StepJobsTest, PublishesOnlySuccessWithACheckpoint) {
  for (bool with_checkpoint : {false, true}) {
    const JobId id(++last_job);
    Send(JobSubmitted{.publish_on_success = true, .id = id, .bytes = 1});
    if (with_checkpoint) Send(CheckpointSaved{device, {id, 1}, 9});
    const auto created = ActionsOf<CreateVersion>(End(id, Outcome::kSucceeded));
    EXPECT_EQ(created.size(), with_checkpoint ? 1u : 0u);
  }
}

TEST_F(StepJobsTest, CheckpointsNeverGoBack) {
  const JobId id = Submit(10);
  Send(CheckpointSaved{device, {id, 1}, 20});
  EXPECT_TRUE(Send(CheckpointSaved{device, {id, 1}, 10}).stale);
  EXPECT_EQ(job(id).checkpoint_step, 20u);
}

TEST_F(StepJobsTest, ADrainStartsNothingNew) {
  const JobId running = Submit(100);
  Send(DrainRequested{});
  const JobId queued = Submit(100);
  End(running, Outcome::kSucceeded);
  EXPECT_EQ(job(queued).state, JobState::kQueued);
}

TEST_F(StepJobsTest, ADrainWithStopChecksPointsAndRequeuesWithoutAFailure) {
  const JobId id = Submit(10);
  Begin(id);
  const auto stops = ActionsOf<StopJob>(Send(DrainRequested{.stop = true}));
  ASSERT_THAT(stops, SizeIs(1));
  EXPECT_EQ(stops[0].reason, StopReason::kDrain);
  Send(CheckpointSaved{device, {id, 1}, 33});
  const StepResult result = End(id, Outcome::kStopped);
  EXPECT_EQ(job(id).state, JobState::kQueued);
  EXPECT_EQ(job(id).failures, 0u);
  EXPECT_THAT(result.job_changes.back().reason, HasSubstr("step 33"));
  EXPECT_THAT(ActionsOf<StopJob>(Send(DrainRequested{.stop = true})),
              SizeIs(0));
}

TEST_F(StepJobsTest, AStopThatNobodyAskedForIsNotAFailure) {
  const JobId id = Submit(10);
  Begin(id);
  End(id, Outcome::kStopped);
  EXPECT_EQ(job(id).state, JobState::kBackingOff);
  EXPECT_EQ(job(id).failures, 0u);
}

TEST_F(StepJobsTest, AForgottenJobIgnoresLateMessages) {
  const JobId id = Submit(10);
  state.ForgetJob(id);
  EXPECT_NE(state.FindJob(id), nullptr) << "only ended jobs are forgotten";
  End(id, Outcome::kSucceeded);
  state.ForgetJob(id);
  EXPECT_EQ(state.FindJob(id), nullptr);
  EXPECT_TRUE(Send(AttemptEnded{device, {id, 1}, Outcome::kFailed, ""}).stale);
}

}  // namespace
}  // namespace gpupool::scheduler
