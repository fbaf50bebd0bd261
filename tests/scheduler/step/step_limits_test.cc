#include <gmock/gmock.h>

#include "scheduler/explain/waiting_reason.h"
#include "tests/scheduler/scheduler_fixture.h"

namespace gpupool::scheduler {
namespace {

using ::testing::HasSubstr;

class StepLimitsTest : public SchedulerTest {
 protected:
  StepLimitsTest() { AddReadyDevice("cpu:0", 100); }

  // Lets time pass like the server, which sends the timers that were asked for.
  StepResult Wait(absl::Duration time) {
    now += time;
    return Send(TimerFired{});
  }
  JobId SubmitSpec(JobSubmitted submitted) {
    submitted.id = JobId(++last_job);
    if (submitted.bytes == 0) submitted.bytes = 100;
    last = Send(submitted);
    return submitted.id;
  }
  std::string Reason(const StepResult& result) {
    return result.job_changes.empty() ? "" : result.job_changes.front().reason;
  }
  StepResult last;
};

// ----------------------------------------------------------------------- hold

TEST_F(StepLimitsTest, AHeldJobStartsWhenItIsReleased) {
  const JobId id = SubmitSpec({.held = true});
  EXPECT_EQ(job(id).state, JobState::kQueued);
  EXPECT_THAT(WaitingReasons(state, 10)[id], HasSubstr("gpupool release 1"));
  Send(JobReleaseRequested{id});
  EXPECT_EQ(job(id).state, JobState::kStarting);
}

TEST_F(StepLimitsTest, HoldingARunningJobMakesItCheckpointAndStop) {
  const JobId id = Submit(100);
  Begin(id);
  const auto stops = ActionsOf<StopJob>(Send(JobHoldRequested{id}));
  ASSERT_EQ(stops.size(), 1u);
  EXPECT_EQ(stops[0].reason, StopReason::kHeld);
  EXPECT_TRUE(Send(JobHoldRequested{id}).stale);
  const StepResult result = End(id, Outcome::kStopped);
  EXPECT_EQ(job(id).state, JobState::kQueued);
  EXPECT_THAT(Reason(result), HasSubstr("held"));
  const JobId other = Submit(100);
  EXPECT_EQ(job(other).state, JobState::kStarting);
}

TEST_F(StepLimitsTest, AHeldJobThatAWorkerStillRunsIsStoppedAgain) {
  const JobId id = Submit(100);
  Begin(id);
  Send(JobHoldRequested{id});
  Send(WorkerLost{DeviceId(0), "gone"});
  EXPECT_EQ(job(id).state, JobState::kQueued);
  const auto stops = ActionsOf<StopJob>(
      Send(WorkerReady{.device = DeviceId(0), .running = {{id, 1}}}));
  ASSERT_EQ(stops.size(), 1u);
  EXPECT_EQ(stops[0].reason, StopReason::kHeld);
}

TEST_F(StepLimitsTest, ReleasingWhatIsNotHeldIsStale) {
  const JobId id = Submit(100);
  EXPECT_TRUE(Send(JobReleaseRequested{id}).stale);
  EXPECT_TRUE(Send(JobHoldRequested{JobId(99)}).stale);
}

// -------------------------------------------------------------------- requeue

TEST_F(StepLimitsTest, RequeueForgetsFailuresAndTheBackOff) {
  const JobId id = Submit(100);
  Begin(id);
  End(id, Outcome::kInterrupted);
  EXPECT_EQ(job(id).failures, 1u);
  Send(JobRequeueRequested{id});
  EXPECT_EQ(job(id).failures, 0u);
  EXPECT_EQ(job(id).state, JobState::kStarting);
}

TEST_F(StepLimitsTest, RequeueOfARunningJobResumesIt) {
  const JobId id = Submit(100);
  Begin(id);
  EXPECT_EQ(ActionsOf<StopJob>(Send(JobRequeueRequested{id})).size(), 1u);
  Send(CheckpointSaved{DeviceId(0), {id, 1}, 7});
  const StepResult result = End(id, Outcome::kStopped);
  EXPECT_THAT(Reason(result), HasSubstr("resumes from step 7"));
  EXPECT_EQ(job(id).attempt, 2u);
}

// --------------------------------------------------------------- dependencies

TEST_F(StepLimitsTest, AJobStartsAfterThoseThatItWaitsFor) {
  const JobId first = Submit(10);
  const JobId second = Submit(10);
  const JobId last_one =
      SubmitSpec({.after_ok = {first}, .after_any = {second}, .bytes = 10});
  EXPECT_THAT(WaitingReasons(state, 10)[last_one],
              HasSubstr("waits for job 1 to succeed"));
  Begin(first);
  End(first, Outcome::kSucceeded);
  EXPECT_EQ(job(last_one).state, JobState::kQueued);
  EXPECT_THAT(WaitingReasons(state, 10)[last_one],
              HasSubstr("waits for job 2 to end"));
  Begin(second);
  End(second, Outcome::kFailed);
  EXPECT_EQ(job(last_one).state, JobState::kStarting);
}

TEST_F(StepLimitsTest, AFailureTakesAChainOfJobsWithIt) {
  JobId before = Submit(100);
  Begin(before);
  const JobId first = before;
  for (int i = 0; i < 20000; ++i) {
    JobSubmitted next{.id = JobId(++last_job), .bytes = 10};
    next.after_ok.insert(before);
    Step(state, next, now);
    before = next.id;
  }
  const StepResult result = End(first, Outcome::kFailed, "broken");
  EXPECT_EQ(result.job_changes.size(), 20001u);
  EXPECT_EQ(job(before).state, JobState::kFailed);
  EXPECT_EQ(result.job_changes[1].reason,
            "job 1, after which it was to run, failed");
}

TEST_F(StepLimitsTest, ACancelledPrerequisiteIsNamed) {
  const JobId first = Submit(100);
  const JobId ok = SubmitSpec({.after_ok = {first}});
  const JobId any = SubmitSpec({.after_any = {first}});
  Send(JobCancelRequested{first});
  const StepResult result = End(first, Outcome::kStopped);
  ASSERT_GE(result.job_changes.size(), 2u);
  EXPECT_EQ(result.job_changes[1].job, ok);
  EXPECT_THAT(result.job_changes[1].reason, HasSubstr("was cancelled"));
  EXPECT_EQ(job(any).state, JobState::kStarting);
}

// --------------------------------------------------------------------- limits

TEST_F(StepLimitsTest, MaxRunStopsAtAStepAndFailsWithTheCheckpointKept) {
  const JobId id = SubmitSpec({.max_run = absl::Seconds(60)});
  const StepResult begun = Send(AttemptStarted{DeviceId(0), {id, 1}});
  const auto timers = ActionsOf<SetTimer>(begun);
  ASSERT_EQ(timers.size(), 1u);
  EXPECT_EQ(timers[0].time, now + absl::Seconds(60));
  EXPECT_TRUE(ActionsOf<StopJob>(Wait(absl::Seconds(59))).empty());
  const auto stops = ActionsOf<StopJob>(Wait(absl::Seconds(1)));
  ASSERT_EQ(stops.size(), 1u);
  EXPECT_EQ(stops[0].reason, StopReason::kOverTime);
  EXPECT_TRUE(ActionsOf<StopJob>(Wait(absl::Seconds(1))).empty());
  Send(CheckpointSaved{DeviceId(0), {id, 1}, 9});
  const StepResult ended = End(id, Outcome::kStopped);
  EXPECT_EQ(job(id).state, JobState::kFailed);
  EXPECT_EQ(
      Reason(ended),
      "ran for its max_run_seconds of 60; the checkpoint of step 9 is kept");
}

TEST_F(StepLimitsTest, MaxRunCountsAllAttemptsButNoWaits) {
  const JobId id = SubmitSpec({.max_run = absl::Seconds(60)});
  Begin(id);
  now += absl::Seconds(40);
  End(id, Outcome::kInterrupted);
  Wait(absl::Hours(1));
  Begin(id);
  EXPECT_TRUE(ActionsOf<StopJob>(Wait(absl::Seconds(19))).empty());
  EXPECT_EQ(ActionsOf<StopJob>(Wait(absl::Seconds(1))).size(), 1u);
}

TEST_F(StepLimitsTest, WhoSucceedsAtItsLimitHasSucceeded) {
  const JobId id = SubmitSpec({.max_run = absl::Seconds(60)});
  Begin(id);
  Wait(absl::Seconds(60));
  End(id, Outcome::kSucceeded);
  EXPECT_EQ(job(id).state, JobState::kSucceeded);
}

TEST_F(StepLimitsTest, AJobThatIsNotStartedInTimeFails) {
  Submit(100);
  const JobId late = SubmitSpec({.start_before = now + absl::Minutes(5)});
  Wait(absl::Minutes(5) - absl::Seconds(1));
  EXPECT_EQ(job(late).state, JobState::kQueued);
  const StepResult result = Wait(absl::Seconds(1));
  EXPECT_EQ(job(late).state, JobState::kFailed);
  EXPECT_EQ(Reason(result),
            "was not started before 1970-01-01T00:05:00+00:00, its "
            "start_before");
}

TEST_F(StepLimitsTest, StartBeforeCountsForTheFirstStartOnly) {
  const JobId id = SubmitSpec({.start_before = now + absl::Minutes(5)});
  Begin(id);
  Wait(absl::Minutes(10));
  End(id, Outcome::kInterrupted);
  EXPECT_EQ(job(id).state, JobState::kBackingOff);
}

TEST_F(StepLimitsTest, ADeadlineThatCannotBeMetAnyMoreFailsAtOnce) {
  Submit(100);
  const JobId id = SubmitSpec(
      {.deadline = now + absl::Hours(1), .expected_run = absl::Minutes(50)});
  Wait(absl::Minutes(9));
  EXPECT_EQ(job(id).state, JobState::kQueued);
  const StepResult result = Wait(absl::Minutes(1));
  EXPECT_EQ(job(id).state, JobState::kFailed);
  EXPECT_EQ(Reason(result),
            "cannot end before 1970-01-01T01:00:00+00:00, its deadline: it "
            "needs 50m more");
}

TEST_F(StepLimitsTest, AClockThatIsSetBackMeanwhileSavesNoJob) {
  const JobId id = SubmitSpec({.deadline = now + absl::Hours(1)});
  Begin(id);
  EXPECT_EQ(ActionsOf<StopJob>(Wait(absl::Hours(1))).size(), 1u);
  now -= absl::Minutes(30);
  const StepResult result = End(id, Outcome::kStopped);
  EXPECT_EQ(job(id).state, JobState::kFailed);
  EXPECT_THAT(Reason(result), HasSubstr("did not end before"));
}

TEST_F(StepLimitsTest, ARunningJobIsStoppedAtItsDeadline) {
  const JobId id = SubmitSpec({.deadline = now + absl::Hours(1)});
  Begin(id);
  EXPECT_EQ(ActionsOf<StopJob>(Wait(absl::Hours(1))).size(), 1u);
  const StepResult result = End(id, Outcome::kStopped);
  EXPECT_THAT(Reason(result), HasSubstr("did not end before"));
  EXPECT_EQ(job(id).state, JobState::kFailed);
}

TEST_F(StepLimitsTest, ADeadlineInThePastFailsAtSubmission) {
  now += absl::Hours(2);
  const JobId id = SubmitSpec({.deadline = now - absl::Hours(1)});
  EXPECT_EQ(job(id).state, JobState::kFailed);
}

// ----------------------------------------------------------- times are learned

TEST_F(StepLimitsTest, ProgressRenewsTheExpectationOnlyWhenItIsNews) {
  const JobId id = Submit(100);
  Begin(id);
  Send(ProgressMade{DeviceId(0), {id, 1}, 1, absl::Seconds(100)});
  EXPECT_EQ(job(id).expected_run, absl::Seconds(100));
  now += absl::Seconds(10);
  Send(ProgressMade{DeviceId(0), {id, 1}, 2, absl::Seconds(95)});
  EXPECT_EQ(job(id).expected_run, absl::Seconds(100));
  Send(ProgressMade{DeviceId(0), {id, 1}, 3, absl::Seconds(200)});
  EXPECT_EQ(job(id).expected_run, absl::Seconds(210));
}

TEST_F(StepLimitsTest, RestartsAreMeasured) {
  state.SetPolicy({.restart_cost = absl::Seconds(60)});
  const JobId id = Submit(100);
  for (uint32_t attempt = 1; attempt <= 4; ++attempt) {
    Send(AttemptStarted{DeviceId(0), {id, attempt}, absl::Seconds(2)});
    Send(
        CheckpointSaved{DeviceId(0), {id, attempt}, attempt, absl::Seconds(3)});
    Send(JobRequeueRequested{id});
    End(id, Outcome::kStopped);
  }
  EXPECT_EQ(state.restart_cost(), absl::Seconds(5));
}

}  // namespace
}  // namespace gpupool::scheduler
