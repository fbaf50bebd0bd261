// The ends of attempts with several ranks.
#include <gmock/gmock.h>

#include "tests/scheduler/scheduler_fixture.h"

namespace gpupool::scheduler {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class StepRanksTest : public SchedulerTest {
 protected:
  void SetUp() override {
    first = AddReadyDevice("cpu:0", 100);
    second = AddReadyDevice("cpu:1", 100);
    third = AddReadyDevice("cpu:2", 100);
  }
  JobId RunningGang(uint32_t devices = 2) {
    const JobId id = SubmitGang(60, devices);
    Begin(id);
    return id;
  }
  uint64_t Committed(DeviceId device) const {
    return state.devices().at(device).committed_bytes();
  }
  // Restores a gang as it was on disk when the server started.
  void RestoreGang(JobState job_state) {
    Job job;
    job.id = JobId(++last_job);
    job.state = job_state;
    job.bytes = 60;
    job.attempt = 1;
    job.device_count = 2;
    job.ranks = {{first}, {second}};
    State fresh;
    for (const auto& [id, device] : state.devices()) {
      fresh.AddDevice(device.name, device.kind, device.limit_bytes);
    }
    state = std::move(fresh);
    state.RestoreJob(job);
    restoring = true;
  }
  void ExpectStopped(const StepResult& result, DeviceId device) {
    const auto stops = ActionsOf<StopJob>(result);
    ASSERT_THAT(stops, SizeIs(1));
    EXPECT_EQ(stops[0].device, device);
    EXPECT_EQ(stops[0].reason, StopReason::kCancelled);
  }

  DeviceId first;
  DeviceId second;
  DeviceId third;
};

TEST_F(StepRanksTest, EveryRankIsStartedOnADeviceOfItsOwnAndCharged) {
  const StepResult result =
      Send(JobSubmitted{.id = JobId(1), .bytes = 60, .device_count = 2});
  const auto starts = ActionsOf<StartJob>(result);
  ASSERT_THAT(starts, SizeIs(2));
  for (uint32_t rank : {0, 1}) {
    EXPECT_EQ(starts[rank].attempt, (AttemptRef{JobId(1), 1}));
    EXPECT_EQ(starts[rank].rank, rank);
    EXPECT_EQ(starts[rank].ranks, 2u);
    EXPECT_EQ(starts[rank].limit_bytes, 60u);
    EXPECT_EQ(starts[rank].device, job(JobId(1)).ranks[rank].device);
  }
  EXPECT_EQ(result.job_changes.back().reason, "placed on cpu:0, cpu:1");
  EXPECT_EQ(Committed(first), 60u);
  EXPECT_EQ(Committed(second), 60u);
  EXPECT_EQ(Committed(third), 0u);
}

TEST_F(StepRanksTest, SucceedsWithItsLastRankAndGivesBackRankByRank) {
  const JobId id = RunningGang();
  EndRank(id, 1, Outcome::kSucceeded);
  EXPECT_EQ(job(id).state, JobState::kRunning);
  EXPECT_EQ(Committed(first), 60u);
  EXPECT_EQ(Committed(second), 0u);
  Send(CheckpointSaved{first, {id, 1}, 20});
  EndRank(id, 0, Outcome::kSucceeded);
  EXPECT_EQ(job(id).state, JobState::kSucceeded);
  EXPECT_EQ(job(id).checkpoint_step, 20u);
  EXPECT_EQ(Committed(first), 0u);
}

TEST_F(StepRanksTest, TheEndOfARankThatCameTwiceChangesNothing) {
  const JobId id = RunningGang();
  EndRank(id, 1, Outcome::kSucceeded);
  EXPECT_TRUE(
      Send(AttemptEnded{second, {id, 1}, Outcome::kFailed, "late"}).stale);
  EXPECT_EQ(job(id).state, JobState::kRunning);
}

TEST_F(StepRanksTest, FailsAtOnceWithTheWordsOfTheRankThatFailed) {
  const JobId id = RunningGang();
  const StepResult result =
      EndRank(id, 1, Outcome::kFailed, "loss is NaN at step 7");
  EXPECT_EQ(job(id).state, JobState::kFailed);
  EXPECT_EQ(result.job_changes.back().reason, "loss is NaN at step 7");
  ExpectStopped(result, first);
  // Its bytes are free when it has really stopped.
  EXPECT_EQ(Committed(first), 60u);
  EXPECT_EQ(Committed(second), 0u);
  Send(AttemptEnded{first, {id, 1}, Outcome::kInterrupted, "rank 1 is lost"});
  EXPECT_EQ(Committed(first), 0u);
}

TEST_F(StepRanksTest, WhatOthersSawBeforeTheFailureDoesNotHideIt) {
  const JobId id = RunningGang();
  ExpectStopped(EndRank(id, 0, Outcome::kInterrupted, "rank 1 is lost"),
                second);
  EXPECT_EQ(job(id).state, JobState::kRunning);
  const StepResult result = EndRank(id, 1, Outcome::kFailed, "loss is NaN");
  EXPECT_EQ(job(id).state, JobState::kFailed);
  EXPECT_EQ(result.job_changes.back().reason, "loss is NaN");
  EXPECT_EQ(Committed(first) + Committed(second), 0u);
}

TEST_F(StepRanksTest, ALostWorkerTakesTheOtherRanksWithIt) {
  const JobId id = RunningGang(3);
  Send(CheckpointSaved{first, {id, 1}, 50});
  const StepResult result = Send(WorkerLost{second, "signal 9"});
  EXPECT_THAT(ActionsOf<StopJob>(result), SizeIs(2));
  EXPECT_EQ(job(id).state, JobState::kRunning);
  EXPECT_THAT(ActionsOf<StopJob>(EndRank(id, 0, Outcome::kStopped)), IsEmpty());
  EXPECT_EQ(job(id).state, JobState::kRunning);
  const StepResult last =
      EndRank(id, 2, Outcome::kInterrupted, "rank 1 is lost");
  EXPECT_EQ(job(id).state, JobState::kBackingOff);
  EXPECT_EQ(job(id).failures, 1u);
  EXPECT_EQ(job(id).checkpoint_step, 50u);
  EXPECT_THAT(last.job_changes.back().reason,
              HasSubstr("lost the worker of cpu:1: signal 9"));
}

TEST_F(StepRanksTest, TheNextAttemptNeedsAllDevicesAgain) {
  const JobId id = RunningGang(3);
  Send(WorkerLost{third, "signal 9"});
  EndRank(id, 0, Outcome::kStopped);
  EndRank(id, 1, Outcome::kStopped);
  now = job(id).wake_time;
  Send(TimerFired{});
  EXPECT_EQ(job(id).state, JobState::kQueued);
  EXPECT_THAT(ActionsOf<StartJob>(Send(WorkerReady{.device = third})),
              SizeIs(3));
  EXPECT_EQ(job(id).attempt, 2u);
}

TEST_F(StepRanksTest, ALostAndFoundRankIsStoppedAndWaitedFor) {
  const JobId id = RunningGang();
  Send(WorkerLost{second, "connection reset"});
  // Its worker is alive and still has the attempt, while rank 0 has not ended
  // yet.
  ExpectStopped(Send(WorkerReady{.device = second, .running = {{id, 1}}}),
                second);
  EXPECT_EQ(Committed(second), 60u);
  EndRank(id, 0, Outcome::kStopped);
  now = job(id).wake_time;
  Send(TimerFired{});
  EXPECT_EQ(job(id).state, JobState::kQueued) << "the old rank is still there";
  Send(AttemptEnded{second, {id, 1}, Outcome::kStopped, ""});
  EXPECT_EQ(job(id).state, JobState::kStarting);
}

TEST_F(StepRanksTest, OneRankAloneIsNotTakenBack) {
  const JobId id = RunningGang();
  Send(WorkerLost{second, "connection reset"});
  EndRank(id, 0, Outcome::kStopped);
  ASSERT_EQ(job(id).state, JobState::kBackingOff);
  ExpectStopped(Send(WorkerReady{.device = second, .running = {{id, 1}}}),
                second);
  EXPECT_EQ(job(id).state, JobState::kBackingOff);
  EXPECT_TRUE(
      Send(AttemptEnded{second, {id, 1}, Outcome::kSucceeded, ""}).stale);
  EXPECT_TRUE(
      Send(AttemptEnded{first, {id, 1}, Outcome::kSucceeded, ""}).stale);
  EXPECT_EQ(job(id).state, JobState::kBackingOff);
}

TEST_F(StepRanksTest, ACancelReachesAllRanksAndWaitsForThem) {
  const JobId id = RunningGang();
  const auto stops = ActionsOf<StopJob>(Send(JobCancelRequested{id}));
  EXPECT_THAT(stops, SizeIs(2));
  EndRank(id, 0, Outcome::kStopped);
  EXPECT_EQ(job(id).state, JobState::kCancelling);
  EXPECT_THAT(ActionsOf<StopJob>(
                  EndRank(id, 1, Outcome::kInterrupted, "rank 0 is lost")),
              IsEmpty());
  EXPECT_EQ(job(id).state, JobState::kCancelled);
  EXPECT_EQ(Committed(first) + Committed(second), 0u);
}

TEST_F(StepRanksTest, ACancellingRankOnALostWorkerCountsAsEnded) {
  const JobId id = RunningGang();
  Send(JobCancelRequested{id});
  Send(WorkerLost{first, "signal 9"});
  EXPECT_EQ(job(id).state, JobState::kCancelling);
  Send(WorkerLost{second, "signal 9"});
  EXPECT_EQ(job(id).state, JobState::kCancelled);
}

TEST_F(StepRanksTest, ADrainReachesAllRanksAndRequeuesWithoutAFailure) {
  const JobId id = RunningGang();
  const auto stops = ActionsOf<StopJob>(Send(DrainRequested{.stop = true}));
  ASSERT_THAT(stops, SizeIs(2));
  EXPECT_EQ(stops[1].reason, StopReason::kDrain);
  EndRank(id, 1, Outcome::kStopped);
  Send(CheckpointSaved{first, {id, 1}, 33});
  const StepResult result = EndRank(id, 0, Outcome::kStopped);
  EXPECT_EQ(job(id).state, JobState::kQueued);
  EXPECT_EQ(job(id).failures, 0u);
  EXPECT_THAT(result.job_changes.back().reason, HasSubstr("step 33"));
}

TEST_F(StepRanksTest, ARankThatIsLostDuringADrainIsNoFailureEither) {
  const JobId id = RunningGang();
  Send(DrainRequested{.stop = true});
  ExpectStopped(Send(WorkerLost{second, "signal 9"}), first);
  EndRank(id, 0, Outcome::kInterrupted, "rank 1 is lost");
  EXPECT_EQ(job(id).state, JobState::kQueued);
  EXPECT_EQ(job(id).failures, 0u);
}

TEST_F(StepRanksTest, AnAttemptIsAdoptedWhenAllItsRanksStillRun) {
  RestoreGang(JobState::kRunning);
  const AttemptRef attempt{JobId(1), 1};
  EXPECT_THAT(Send(WorkerReady{.device = first, .running = {attempt}}).actions,
              IsEmpty());
  EXPECT_THAT(Send(WorkerReady{.device = second, .running = {attempt}}).actions,
              IsEmpty());
  EXPECT_EQ(job(JobId(1)).state, JobState::kRunning);
  EXPECT_EQ(job(JobId(1)).attempt, 1u);
}

TEST_F(StepRanksTest, ARankThatIsMissingForTooLongTakesTheOthersWithIt) {
  RestoreGang(JobState::kRunning);
  const AttemptRef attempt{JobId(1), 1};
  Send(WorkerReady{.device = second});
  // Another rank is there, but this does not explain the missing one.
  Send(WorkerReady{.device = first, .running = {attempt}});
  now += kMissingAttemptGrace;
  const auto stops = ActionsOf<StopJob>(Send(TimerFired{}));
  EXPECT_THAT(stops, SizeIs(2));
  EXPECT_EQ(job(JobId(1)).state, JobState::kRunning);
  EndRank(JobId(1), 0, Outcome::kStopped);
  EXPECT_EQ(job(JobId(1)).state, JobState::kBackingOff);
}

TEST_F(StepRanksTest, SpooledEndsOfAllRanksWithinTheGraceAreTheEnd) {
  RestoreGang(JobState::kRunning);
  Send(WorkerReady{.device = first});
  Send(WorkerReady{.device = second});
  EndRank(JobId(1), 1, Outcome::kSucceeded);
  EndRank(JobId(1), 0, Outcome::kSucceeded);
  EXPECT_EQ(job(JobId(1)).state, JobState::kSucceeded);
}

TEST_F(StepRanksTest, AnAttemptThatIsBeingBrokenUpIsNotAdopted) {
  RestoreGang(JobState::kRunning);
  Send(WorkerLost{second, "never came back"});
  ExpectStopped(Send(WorkerReady{.device = first, .running = {{JobId(1), 1}}}),
                first);
  EndRank(JobId(1), 0, Outcome::kStopped);
  EXPECT_EQ(job(JobId(1)).state, JobState::kBackingOff);
}

TEST_F(StepRanksTest, GangsAndSmallJobsShareTheDevices) {
  const JobId small = Submit(30);
  const JobId gang = SubmitGang(60, 3);
  const JobId beside = Submit(40);
  for (JobId id : {small, gang, beside}) {
    EXPECT_EQ(job(id).state, JobState::kStarting);
  }
  EXPECT_THAT(job(gang).ranks, SizeIs(3));
  EXPECT_LE(Committed(first), 100u);
}

TEST_F(StepRanksTest, APlanThatWasMadeAnewCountsFromTheNextAttempt) {
  const JobId id = RunningGang();
  Send(JobPlanned{id, 70});
  EndRank(id, 0, Outcome::kStopped);
  EXPECT_EQ(Committed(second), 60u);
  EndRank(id, 1, Outcome::kStopped);
  EXPECT_EQ(job(id).bytes, 70u);
}

}  // namespace
}  // namespace gpupool::scheduler
