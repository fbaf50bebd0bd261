#include <gmock/gmock.h>

#include "scheduler/state/state_editor.h"
#include "tests/scheduler/scheduler_fixture.h"

namespace gpupool::scheduler {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class StepWorkersTest : public SchedulerTest {
 protected:
  // Returns a job as it was on disk when the server started.
  Job OnDisk(JobState job_state, uint64_t bytes = 10) {
    Job job;
    job.id = JobId(++last_job);
    job.state = job_state;
    job.bytes = bytes;
    job.attempt = job_state == JobState::kQueued ? 0 : 1;
    if (IsLive(job_state)) job.ranks = {{device}};
    return job;
  }
  Version VersionOnDisk(VersionState version_state) {
    Version version;
    version.id = VersionId(++last_version);
    version.model = "digits";
    version.number = last_version;
    version.bytes = 20;
    version.state = version_state;
    if (version_state != VersionState::kUnloaded) version.device = device;
    return version;
  }
  void Wait(absl::Duration time) {
    now += time;
    Send(TimerFired{});
  }
  void SetUp() override { device = AddDevice("cpu:0", 100); }
  DeviceId device;
};

TEST_F(StepWorkersTest, NothingStartsBeforeTheWorkerIsReady) {
  const JobId id = Submit(10);
  EXPECT_EQ(job(id).state, JobState::kQueued);
  EXPECT_THAT(ActionsOf<StartJob>(Send(WorkerReady{.device = device})),
              SizeIs(1));
}

TEST_F(StepWorkersTest, ALostWorkerSendsItsJobsToBackingOff) {
  Send(WorkerReady{.device = device});
  const JobId id = Submit(10);
  Begin(id);
  Send(CheckpointSaved{device, {id, 1}, 50});
  Send(WorkerLost{device, "signal 9"});
  EXPECT_EQ(job(id).state, JobState::kBackingOff);
  EXPECT_EQ(job(id).failures, 1u);
  EXPECT_EQ(job(id).checkpoint_step, 50u);
  EXPECT_EQ(state.devices().at(device).committed_bytes(), 0u);
}

TEST_F(StepWorkersTest, OnlyTheJobWhoseWorkEndedTheWorkerIsCharged) {
  Send(WorkerReady{.device = device});
  const JobId guilty = Submit(10);
  const JobId other = Submit(10);
  Begin(guilty);
  Begin(other);
  const StepResult lost =
      Send(WorkerLost{device, "signal 6", DeviceFault::kNone, {.job = guilty}});
  EXPECT_EQ(job(guilty).failures, 1u);
  EXPECT_EQ(job(other).failures, 0u);
  EXPECT_EQ(job(other).state, JobState::kBackingOff);
  EXPECT_THAT(lost.job_changes.at(1).reason,
              AllOf(HasSubstr("while it worked on job 1: signal 6"),
                    HasSubstr("not the job's fault")));
  EXPECT_THAT(job(other).faults, IsEmpty());
}

TEST_F(StepWorkersTest, AVersionsWorkChargesNoJob) {
  Send(WorkerReady{.device = device});
  const JobId id = Submit(10);
  Begin(id);
  const VersionId version = Create("digits", 1, 20);
  Load(version);
  for (const DeviceFault fault :
       {DeviceFault::kNone, DeviceFault::kLostContext}) {
    Send(WorkerLost{device, "signal 11", fault, {.version = version}});
    EXPECT_EQ(job(id).failures, 0u);
    EXPECT_THAT(job(id).faults, IsEmpty());
    Send(WorkerReady{.device = device});
    Wait(absl::Seconds(20));
  }
}

TEST_F(StepWorkersTest, AnUnexplainedEndIsChargedToNobodyWhoHasCompany) {
  Send(WorkerReady{.device = device});
  const JobId id = Submit(10);
  Load(Create("digits", 1, 20));
  for (size_t ends = 1; ends <= kBlameFaults; ++ends) {
    Begin(id);
    Send(WorkerLost{device, "signal 9"});
    EXPECT_EQ(job(id).failures, 0u);
    EXPECT_EQ(job(id).faults.size(), ends);
    Send(WorkerReady{.device = device});
    Wait(kLongestBackoff);
    Load(VersionId(last_version));
  }
  // One that is always there when it happens is not tried for ever.
  EXPECT_EQ(job(id).state, JobState::kFailed);
}

TEST_F(StepWorkersTest, ACancellingJobOnALostWorkerIsCancelled) {
  Send(WorkerReady{.device = device});
  const JobId id = Submit(10);
  Send(JobCancelRequested{id});
  Send(WorkerLost{device, "signal 9"});
  EXPECT_EQ(job(id).state, JobState::kCancelled);
}

TEST_F(StepWorkersTest, AdoptsWhatRunsAndIsExpected) {
  state.RestoreJob(OnDisk(JobState::kRunning));
  const StepResult result =
      Send(WorkerReady{.device = device, .running = {{JobId(1), 1}}});
  EXPECT_EQ(job(JobId(1)).state, JobState::kRunning);
  EXPECT_EQ(job(JobId(1)).attempt, 1u);
  EXPECT_THAT(ActionsOf<StopJob>(result), SizeIs(0));
  EXPECT_THAT(ActionsOf<StartJob>(result), SizeIs(0));
}

TEST_F(StepWorkersTest, StopsWhatRunsAndIsNotExpectedAndBooksItsBytes) {
  state.RestoreJob(OnDisk(JobState::kQueued, 40));
  Job& job_on_disk = *StateEditor(state).FindJob(JobId(1));
  job_on_disk.attempt = 2;
  const StepResult result =
      Send(WorkerReady{.device = device, .running = {{JobId(1), 1}}});
  EXPECT_THAT(ActionsOf<StopJob>(result), SizeIs(1));
  // There is enough room, but two attempts of one job never run together.
  EXPECT_EQ(job(JobId(1)).state, JobState::kQueued);
  Send(AttemptEnded{device, {JobId(1), 1}, Outcome::kStopped, ""});
  EXPECT_EQ(job(JobId(1)).state, JobState::kStarting);
  EXPECT_EQ(job(JobId(1)).attempt, 3u);
}

TEST_F(StepWorkersTest, StopsAnAttemptOfAnUnknownJob) {
  const StepResult result =
      Send(WorkerReady{.device = device, .running = {{JobId(77), 1}}});
  EXPECT_THAT(ActionsOf<StopJob>(result), SizeIs(1));
}

TEST_F(StepWorkersTest, AnExpectedAttemptThatIsAbsentIsLostAfterAGrace) {
  state.RestoreJob(OnDisk(JobState::kRunning));
  Send(WorkerReady{.device = device});
  EXPECT_EQ(job(JobId(1)).state, JobState::kRunning);
  // A report that a dead process has spooled proves nothing.
  Send(ProgressMade{device, {JobId(1), 1}, 5});
  now += kMissingAttemptGrace;
  const StepResult result = Send(TimerFired{});
  EXPECT_EQ(job(JobId(1)).state, JobState::kBackingOff);
  EXPECT_THAT(ActionsOf<StopJob>(result), SizeIs(1));
}

TEST_F(StepWorkersTest, ASpooledEndWithinTheGraceIsTheEnd) {
  state.RestoreJob(OnDisk(JobState::kRunning));
  Send(WorkerReady{.device = device});
  Send(CheckpointSaved{device, {JobId(1), 1}, 90});
  Send(AttemptEnded{device, {JobId(1), 1}, Outcome::kSucceeded, ""});
  EXPECT_EQ(job(JobId(1)).state, JobState::kSucceeded);
}

TEST_F(StepWorkersTest, ACancelIsSaidAgainToAnAdoptedAttempt) {
  state.RestoreJob(OnDisk(JobState::kCancelling));
  EXPECT_THAT(ActionsOf<StopJob>(Send(
                  WorkerReady{.device = device, .running = {{JobId(1), 1}}})),
              SizeIs(1));
  EXPECT_EQ(job(JobId(1)).state, JobState::kCancelling);
}

TEST_F(StepWorkersTest, AMissingCancellingAttemptIsCancelled) {
  state.RestoreJob(OnDisk(JobState::kCancelling));
  Send(WorkerReady{.device = device});
  now += kMissingAttemptGrace;
  Send(TimerFired{});
  EXPECT_EQ(job(JobId(1)).state, JobState::kCancelled);
}

TEST_F(StepWorkersTest, TakesBackAnAttemptThatSurvivedALostConnection) {
  Send(WorkerReady{.device = device});
  const JobId id = Submit(10);
  Begin(id);
  Send(WorkerLost{device, "connection reset"});
  ASSERT_EQ(job(id).state, JobState::kBackingOff);
  Send(WorkerReady{.device = device, .running = {{id, 1}}});
  EXPECT_EQ(job(id).state, JobState::kRunning);
  EXPECT_EQ(job(id).attempt, 1u);
  EXPECT_EQ(job(id).failures, 0u);
}

TEST_F(StepWorkersTest, AdoptedAttemptsStopWhenTheServerIsStopping) {
  state.RestoreJob(OnDisk(JobState::kRunning));
  restoring = true;
  Send(DrainRequested{.stop = true});
  const auto stops = ActionsOf<StopJob>(
      Send(WorkerReady{.device = device, .running = {{JobId(1), 1}}}));
  ASSERT_THAT(stops, SizeIs(1));
  EXPECT_EQ(stops[0].reason, StopReason::kDrain);
}

TEST_F(StepWorkersTest, TheWorkersOwnLimitCounts) {
  Send(WorkerReady{.device = device, .limit_bytes = 50});
  EXPECT_EQ(job(Submit(60)).state, JobState::kQueued);
  EXPECT_EQ(job(Submit(50)).state, JobState::kStarting);
}

TEST_F(StepWorkersTest, ServesAnAdoptedVersionAgainWithoutLoadingIt) {
  state.RestoreVersion(VersionOnDisk(VersionState::kReady));
  const StepResult result =
      Send(WorkerReady{.device = device, .loaded = {VersionId(1)}});
  EXPECT_THAT(ActionsOf<ServeVersion>(result), SizeIs(1));
  EXPECT_THAT(ActionsOf<LoadVersion>(result), SizeIs(0));
}

TEST_F(StepWorkersTest, AVersionThatIsAbsentIsLoadedAgain) {
  state.RestoreVersion(VersionOnDisk(VersionState::kReady));
  const StepResult result = Send(WorkerReady{.device = device});
  EXPECT_THAT(ActionsOf<LoadVersion>(result), SizeIs(1));
  EXPECT_EQ(version(VersionId(1)).state, VersionState::kLoading);
}

TEST_F(StepWorkersTest, AVersionThatWasUnloadingIsFinishedOff) {
  state.RestoreVersion(VersionOnDisk(VersionState::kUnloading));
  const StepResult result =
      Send(WorkerReady{.device = device, .loaded = {VersionId(1)}});
  EXPECT_THAT(ActionsOf<UnloadVersion>(result), SizeIs(1));
  Send(VersionUnloaded{VersionId(1), device});
  EXPECT_EQ(version(VersionId(1)).state, VersionState::kUnloaded);
}

TEST_F(StepWorkersTest, AnUnexpectedVersionIsUnloaded) {
  state.RestoreVersion(VersionOnDisk(VersionState::kUnloaded));
  const StepResult result = Send(
      WorkerReady{.device = device, .loaded = {VersionId(1), VersionId(50)}});
  EXPECT_THAT(ActionsOf<UnloadVersion>(result), SizeIs(2));
  EXPECT_EQ(state.devices().at(device).committed_bytes(), 20u);
  Send(VersionUnloaded{VersionId(1), device});
  EXPECT_EQ(state.devices().at(device).committed_bytes(), 0u);
}

TEST_F(StepWorkersTest, VersionsOfALostWorkerMoveToAnotherDevice) {
  const DeviceId other = AddDevice("cpu:1", 100);
  Send(WorkerReady{.device = device});
  const VersionId id = Create("digits", 1, 20);
  Load(id);
  ASSERT_EQ(version(id).device, device);
  Send(WorkerReady{.device = other});
  const auto loads = ActionsOf<LoadVersion>(Send(WorkerLost{device, "gone"}));
  ASSERT_THAT(loads, SizeIs(1));
  EXPECT_EQ(loads[0].device, other);
}

TEST_F(StepWorkersTest, UnknownDevicesChangeNothing) {
  EXPECT_TRUE(Send(WorkerReady{.device = DeviceId(9)}).stale);
  EXPECT_TRUE(Send(WorkerLost{DeviceId(9), "x"}).stale);
}

TEST_F(StepWorkersTest, OnlyTheFractionThatIsSetIsPlacedOn) {
  Send(WorkerReady{.device = device});
  EXPECT_FALSE(Send(MemoryFractionSet{device, 0.5}).stale);
  const JobId large = Submit(60);
  EXPECT_EQ(job(large).state, JobState::kQueued);
  EXPECT_EQ(job(Submit(50)).state, JobState::kStarting);
  EXPECT_FALSE(Send(MemoryFractionSet{device, 1}).stale);
  EXPECT_EQ(job(large).state, JobState::kQueued) << "50 of 100 are placed";
  Send(WorkerReady{.device = device, .limit_bytes = 200});
  EXPECT_EQ(job(large).state, JobState::kStarting);
}

TEST_F(StepWorkersTest, AFractionBelowWhatIsPlacedChangesNothing) {
  Send(WorkerReady{.device = device});
  Submit(60);
  EXPECT_TRUE(Send(MemoryFractionSet{device, 0.5}).stale);
  EXPECT_EQ(state.FindDevice(device)->limit_bytes, 100u);
  EXPECT_FALSE(Send(MemoryFractionSet{device, 0.6}).stale);
}

TEST_F(StepWorkersTest, ALaterWorkerHasTheFractionToo) {
  Send(MemoryFractionSet{device, 0.25});
  Send(WorkerReady{.device = device, .limit_bytes = 80});
  EXPECT_EQ(state.FindDevice(device)->full_bytes, 80u);
  EXPECT_EQ(state.FindDevice(device)->limit_bytes, 20u);
}

// A worker that was given up as lost comes back with the job's attempt, after
// others were told to make room for the next attempt.
TEST_F(SchedulerTest, AReservationIsNotUsedBeforeTheOldAttemptHasStopped) {
  state.SetPolicy({.order = Order::kPriority});
  const DeviceId first = AddReadyDevice("cpu:0", 100);
  const DeviceId second = AddReadyDevice("cpu:1", 100);
  const JobId job_id = Submit(80, 5);
  Begin(job_id);
  ASSERT_EQ(DeviceOf(job_id), first);
  const JobId other = Submit(80);
  Begin(other);
  Send(WorkerLost{first, "connection lost"});
  now = job(job_id).wake_time;
  Send(TimerFired{});
  ASSERT_EQ(job(job_id).reserved_devices, std::vector<DeviceId>{second});
  Send(WorkerReady{
      .device = first, .limit_bytes = 50, .running = {{job_id, 1}}});
  EXPECT_THAT(ActionsOf<StartJob>(End(other, Outcome::kStopped)), IsEmpty());
  const StepResult gone =
      Send(AttemptEnded{first, {job_id, 1}, Outcome::kStopped, ""});
  ASSERT_THAT(ActionsOf<StartJob>(gone), SizeIs(1));
  EXPECT_EQ(ActionsOf<StartJob>(gone)[0].attempt, (AttemptRef{job_id, 2}));
}

}  // namespace
}  // namespace gpupool::scheduler
