#include "scheduler/state/array_limit.h"

#include <gmock/gmock.h>

#include "scheduler/explain/explain.h"
#include "scheduler/explain/waiting_reason.h"
#include "tests/scheduler/scheduler_fixture.h"

namespace gpupool::scheduler {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class ArrayLimitTest : public SchedulerTest {
 protected:
  ArrayLimitTest() {
    for (int i = 0; i < 4; ++i) AddReadyDevice(absl::StrCat("cpu:", i), 100);
  }
  // Submits tasks of 100 bytes, so that each needs its own device.
  JobId SubmitArray(size_t tasks, uint32_t at_once, JobSubmitted like = {}) {
    ArraySubmitted array;
    const JobId id(++last_job);
    for (size_t i = 0; i < tasks; ++i) {
      like.id = JobId(++last_job);
      like.bytes = 100;
      like.array = id;
      like.max_at_once = at_once;
      array.tasks.push_back(like);
    }
    last = Send(array);
    return id;
  }
  JobId Task(JobId array, uint64_t index) {
    return JobId(array.value() + 1 + index);
  }
  const ArrayTasks& Tasks(JobId array) { return state.arrays().at(array); }
  std::vector<JobState> States(JobId array, size_t tasks) {
    std::vector<JobState> states;
    for (size_t i = 0; i < tasks; ++i) {
      states.push_back(job(Task(array, i)).state);
    }
    return states;
  }
  void Restart() {
    State fresh;
    for (const auto& [id, device] : state.devices()) {
      fresh.AddDevice(device.name, device.kind, device.limit_bytes);
    }
    for (const auto& [id, old] : state.jobs()) {
      if (!IsEnded(old.state)) fresh.RestoreJob(old);
    }
    state = std::move(fresh);
    restoring = true;
  }
  StepResult last;
};

TEST_F(ArrayLimitTest, RunsSoManyAtOnceAndNoMore) {
  const JobId array = SubmitArray(5, 2);
  EXPECT_THAT(ActionsOf<StartJob>(last), SizeIs(2));
  EXPECT_THAT(Tasks(array).standing, SizeIs(3));
  EXPECT_THAT(state.queue(), IsEmpty());
  Begin(Task(array, 0));
  const auto started =
      ActionsOf<StartJob>(End(Task(array, 0), Outcome::kSucceeded));
  ASSERT_THAT(started, SizeIs(1));
  EXPECT_EQ(started[0].attempt.job, Task(array, 2));
  EXPECT_THAT(Tasks(array).live, SizeIs(2));
}

TEST_F(ArrayLimitTest, WithoutALimitAllRun) {
  const JobId array = SubmitArray(5, 0);
  EXPECT_THAT(Tasks(array).live, SizeIs(4));
  EXPECT_THAT(Tasks(array).queued, SizeIs(1));
}

TEST_F(ArrayLimitTest, OtherJobsUseTheDevicesThatAreLeft) {
  SubmitArray(5, 1);
  const JobId other = Submit(100);
  EXPECT_EQ(job(other).state, JobState::kStarting);
}

TEST_F(ArrayLimitTest, ATaskThatBacksOffGivesItsPlaceUp) {
  const JobId array = SubmitArray(3, 1);
  End(Task(array, 0), Outcome::kInterrupted, "lost");
  EXPECT_THAT(States(array, 3),
              ElementsAre(JobState::kBackingOff, JobState::kStarting,
                          JobState::kQueued));
  now += absl::Hours(1);
  Send(TimerFired{});
  EXPECT_EQ(job(Task(array, 0)).state, JobState::kQueued);
  EXPECT_THAT(Tasks(array).live, SizeIs(1));
  End(Task(array, 1), Outcome::kSucceeded);  // then the first goes first
  EXPECT_EQ(job(Task(array, 0)).state, JobState::kStarting);
}

TEST_F(ArrayLimitTest, ATaskThatIsHeldGivesItsPlaceUp) {
  const JobId array = SubmitArray(3, 1);
  Send(JobHoldRequested{Task(array, 1)});
  Send(JobHoldRequested{Task(array, 0)});
  EXPECT_EQ(job(Task(array, 2)).state, JobState::kQueued);  // it still runs
  End(Task(array, 0), Outcome::kStopped);
  EXPECT_EQ(job(Task(array, 2)).state, JobState::kStarting);
}

TEST_F(ArrayLimitTest, SaysWhyATaskWaitsForItsLimitAndWhatWouldChangeIt) {
  const JobId array = SubmitArray(4, 2);
  const auto reasons = WaitingReasons(state, 10);
  EXPECT_EQ(reasons.at(Task(array, 3)),
            "array 1 runs at most 2 tasks at once (max_at_once): 2 run");
  const Explanation why = Explain(state, job(Task(array, 3)), now);
  EXPECT_THAT(why.changes,
              ElementsAre(HasSubstr("1 task of array 1 ahead of it starts"),
                          "job 2 of array 1 ends or is held",
                          "job 3 of array 1 ends or is held"));
}

TEST_F(ArrayLimitTest, CancellingAnArrayStartsNoneOfItsTasks) {
  const JobId array = SubmitArray(6, 2);
  const StepResult result = Send(ArrayRequested{array, ArrayRequest::kCancel});
  EXPECT_THAT(ActionsOf<StartJob>(result), IsEmpty());
  EXPECT_THAT(ActionsOf<StopJob>(result), SizeIs(2));
  EXPECT_EQ(job(Task(array, 5)).state, JobState::kCancelled);
  End(Task(array, 0), Outcome::kStopped);
  End(Task(array, 1), Outcome::kStopped);
  EXPECT_THAT(state.arrays(), IsEmpty());
  EXPECT_TRUE(Send(ArrayRequested{array, ArrayRequest::kCancel}).stale);
}

TEST_F(ArrayLimitTest, HoldsReleasesAndRequeuesAllTasks) {
  const JobId array = SubmitArray(4, 2);
  Send(ArrayRequested{array, ArrayRequest::kHold});
  End(Task(array, 0), Outcome::kStopped);
  End(Task(array, 1), Outcome::kInterrupted, "lost");
  EXPECT_THAT(Tasks(array).live, IsEmpty());
  Send(ArrayRequested{array, ArrayRequest::kRequeue});
  EXPECT_EQ(job(Task(array, 1)).state, JobState::kQueued);
  EXPECT_THAT(
      ActionsOf<StartJob>(Send(ArrayRequested{array, ArrayRequest::kRelease})),
      SizeIs(2));
  EXPECT_THAT(Tasks(array).live, ElementsAre(Task(array, 0), Task(array, 1)));
}

TEST_F(ArrayLimitTest, OthersWaitForAllTasks) {
  const JobId array = SubmitArray(2, 1);
  const JobId ok(++last_job), any(++last_job);
  Send(JobSubmitted{.after_ok = {array}, .id = ok, .bytes = 10});
  Send(JobSubmitted{.after_any = {array}, .id = any, .bytes = 10});
  End(Task(array, 0), Outcome::kSucceeded);
  EXPECT_EQ(job(ok).state, JobState::kQueued);
  End(Task(array, 1), Outcome::kSucceeded);
  EXPECT_EQ(job(ok).state, JobState::kStarting);
  EXPECT_EQ(job(any).state, JobState::kStarting);
}

TEST_F(ArrayLimitTest, OneFailureFailsWhatWaitsForSuccess) {
  const JobId array = SubmitArray(2, 1);
  const JobId ok(++last_job), any(++last_job);
  Send(JobSubmitted{.after_ok = {array}, .id = ok, .bytes = 10});
  Send(JobSubmitted{.after_any = {array}, .id = any, .bytes = 10});
  const StepResult result =
      End(Task(array, 0), Outcome::kFailed, "out of range");
  EXPECT_EQ(job(ok).state, JobState::kFailed);
  EXPECT_THAT(result.job_changes,
              Contains(::testing::Field(
                  &JobChange::reason,
                  "job 2 of array 1, after which it was to run, failed")));
  EXPECT_EQ(job(any).state, JobState::kQueued);
  End(Task(array, 1), Outcome::kSucceeded);
  EXPECT_EQ(job(any).state, JobState::kStarting);
}

TEST_F(ArrayLimitTest, TasksThatRunCountAfterARestart) {
  const JobId array = SubmitArray(5, 2);
  End(Task(array, 0), Outcome::kSucceeded);  // the second and the third run
  Restart();
  EXPECT_THAT(Tasks(array).live, ElementsAre(Task(array, 1), Task(array, 2)));
  EXPECT_THAT(Tasks(array).standing, SizeIs(2));
  for (uint64_t i = 0; i < 4; ++i) {
    WorkerReady ready{.device = DeviceId(i)};
    for (JobId id : state.devices().at(DeviceId(i)).jobs) {
      ready.running.push_back({id, job(id).attempt});
    }
    EXPECT_THAT(ActionsOf<StartJob>(Send(ready)), IsEmpty());
  }
  restoring = false;
  EXPECT_THAT(ActionsOf<StartJob>(End(Task(array, 1), Outcome::kSucceeded)),
              SizeIs(1));
}

// Its worker comes back with the task after others have taken its place.
TEST_F(ArrayLimitTest, ATaskWhosePlaceIsTakenIsNotTakenBack) {
  const JobId array = SubmitArray(2, 1);
  const AttemptRef first{Task(array, 0), 1};
  const DeviceId device = DeviceOf(Task(array, 0));
  Send(WorkerLost{device, "gone"});
  EXPECT_EQ(job(Task(array, 1)).state, JobState::kStarting);
  const auto stops = ActionsOf<StopJob>(
      Send(WorkerReady{.device = device, .running = {first}}));
  ASSERT_THAT(stops, SizeIs(1));
  EXPECT_EQ(stops[0].attempt, first);
  EXPECT_THAT(Tasks(array).live, SizeIs(1));
}

TEST_F(ArrayLimitTest, ATaskThatIsTakenBackSendsTheNextOneAside) {
  const JobId array = SubmitArray(2, 1);
  const AttemptRef first{Task(array, 0), 1};
  const DeviceId device = DeviceOf(Task(array, 0));
  // There is no device left for the second task.
  for (int i = 0; i < 3; ++i) Submit(100);
  Send(WorkerLost{device, "gone"});
  EXPECT_THAT(Tasks(array).queued, ElementsAre(Task(array, 1)));
  Send(WorkerReady{.device = device, .running = {first}});
  EXPECT_EQ(job(Task(array, 0)).state, JobState::kRunning);
  EXPECT_TRUE(job(Task(array, 1)).over_limit);
}

TEST_F(ArrayLimitTest, TasksPastTheirDeadlineFailAtOnce) {
  const JobId array = SubmitArray(3, 1, {.deadline = now - absl::Seconds(1)});
  EXPECT_THAT(last.job_changes, SizeIs(3));
  EXPECT_FALSE(state.arrays().contains(array));
}

}  // namespace
}  // namespace gpupool::scheduler
