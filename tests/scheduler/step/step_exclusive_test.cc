// Exclusive jobs.
#include <gmock/gmock.h>

#include "scheduler/explain/explain.h"
#include "scheduler/explain/waiting_reason.h"
#include "tests/scheduler/scheduler_fixture.h"

namespace gpupool::scheduler {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// Two devices, of 100 and of 200 bytes.
class StepExclusiveTest : public SchedulerTest {
 protected:
  StepExclusiveTest() {
    small = AddReadyDevice("cpu:0", 100);
    large = AddReadyDevice("cpu:1", 200);
  }
  JobId SubmitAlone(uint64_t bytes, uint32_t devices = 1, int priority = 0,
                    const std::string& wanted = "") {
    const JobId id(++last_job);
    Send(JobSubmitted{.wanted_device = wanted,
                      .demands = {.exclusive = true},
                      .id = id,
                      .priority = priority,
                      .bytes = bytes,
                      .device_count = devices});
    return id;
  }
  JobId SubmitOn(const std::string& wanted, uint64_t bytes) {
    const JobId id(++last_job);
    Send(JobSubmitted{.wanted_device = wanted, .id = id, .bytes = bytes});
    return id;
  }
  bool Waits(JobId id) const { return job(id).state == JobState::kQueued; }
  uint64_t Free(DeviceId id) const {
    return state.devices().at(id).free_bytes();
  }
  DeviceId small;
  DeviceId large;
};

TEST_F(StepExclusiveTest, NobodyComesWhereItRuns) {
  const JobId alone = SubmitAlone(10);
  EXPECT_EQ(DeviceOf(alone), small);
  EXPECT_EQ(Free(small), 0u);
  EXPECT_EQ(DeviceOf(Submit(10)), large);
  EXPECT_EQ(DeviceOf(Submit(10)), large);
  const JobId waits = SubmitOn("cpu:0", 10);
  EXPECT_EQ(WaitingReason(state, job(waits)),
            "waits for cpu:0: it needs 10 B there, 0 B are free; job 1 has "
            "cpu:0 to itself; it is next");
  EXPECT_EQ(Explain(state, job(waits), now).devices[0].obstacle,
            "job 1 has it to itself");
  End(alone, Outcome::kSucceeded);
  EXPECT_EQ(DeviceOf(waits), small);
  EXPECT_EQ(Free(small), 90u);
}

TEST_F(StepExclusiveTest, ItStartsOnlyWhereNothingIs) {
  Load(Create("digits", 1, 10));
  const JobId other = SubmitOn("cpu:1", 10);
  const JobId alone = SubmitAlone(10);
  EXPECT_TRUE(Waits(alone));
  EXPECT_EQ(WaitingReason(state, job(alone)),
            "waits for a whole device (exclusive: true); on cpu:1 is 1 job; it "
            "is next");
  EXPECT_EQ(Explain(state, job(alone), now).devices[0].obstacle,
            "not empty, and the job shares no device");
  End(other, Outcome::kSucceeded);
  EXPECT_EQ(DeviceOf(alone), large);
}

TEST_F(StepExclusiveTest, AModelWaitsInWords) {
  const JobId alone = SubmitAlone(10, 1, 0, "cpu:1");
  const VersionId id = Create("digits", 1, 150);
  Send(VersionLoadRequested{id});
  EXPECT_EQ(version(id).state, VersionState::kLoading);
  EXPECT_THAT(version(id).error, HasSubstr("job 1 has cpu:1 to itself"));
  End(alone, Outcome::kSucceeded);
  EXPECT_EQ(version(id).device, large);
}

// The same holds for jobs that share devices.
TEST_F(StepExclusiveTest, WhileAJobBacksOffOthersTakeItsDevice) {
  for (const bool exclusive : {true, false}) {
    const JobId first(++last_job);
    Send(JobSubmitted{.wanted_device = "cpu:0",
                      .demands = {.exclusive = exclusive},
                      .id = first,
                      .bytes = 90});
    Begin(first);
    End(first, Outcome::kInterrupted);
    EXPECT_EQ(job(first).state, JobState::kBackingOff);
    const JobId later = SubmitOn("cpu:0", 90);
    EXPECT_EQ(DeviceOf(later), small);
    now += absl::Seconds(2);
    Send(TimerFired{});
    EXPECT_TRUE(Waits(first));
    End(later, Outcome::kSucceeded);
    EXPECT_EQ(DeviceOf(first), small);
    End(first, Outcome::kSucceeded);
  }
}

TEST_F(StepExclusiveTest, AGangTakesDevicesOfAnySizeWhole) {
  const JobId gang = SubmitAlone(10, 2);
  EXPECT_THAT(job(gang).ranks, SizeIs(2));
  EXPECT_EQ(Free(small) + Free(large), 0u);
  const JobId waits = Submit(1);
  EXPECT_TRUE(Waits(waits));
  EndRank(gang, 0, Outcome::kSucceeded);
  EndRank(gang, 1, Outcome::kSucceeded);
  EXPECT_FALSE(Waits(waits));
}

TEST_F(StepExclusiveTest, ItKeepsAllOfADeviceWhoseFractionOrLimitGrows) {
  Send(MemoryFractionSet{small, 0.5});
  SubmitAlone(10, 1, 0, "cpu:0");
  Send(MemoryFractionSet{small, 1});
  EXPECT_EQ(Free(small), 0u);
  EXPECT_TRUE(Send(MemoryFractionSet{small, 0.5}).stale);
  Send(WorkerReady{
      .device = small, .limit_bytes = 300, .running = {{JobId(1), 1}}});
  EXPECT_EQ(Free(small), 0u);
  EXPECT_EQ(state.devices().at(small).job_bytes, 300u);
}

TEST_F(StepExclusiveTest, ManySmallJobsDoNotStarveIt) {
  state.SetPolicy({});
  SubmitOn("cpu:0", 60);
  std::vector<JobId> running{SubmitOn("cpu:1", 120)};
  const JobId alone = SubmitAlone(10);
  for (int i = 0; i < 40 && Waits(alone); ++i) {
    // A new job arrives before the last one ends.
    const JobId next = SubmitOn("cpu:1", 60);
    if (!Waits(next)) running.push_back(next);
    End(running.front(), Outcome::kSucceeded);
    running.erase(running.begin());
    if (running.empty()) break;
  }
  EXPECT_FALSE(Waits(alone));
}

TEST_F(StepExclusiveTest, AllOthersGiveWayToAStrongerOne) {
  state.SetPolicy({.order = Order::kPriority});
  const JobId first = SubmitOn("cpu:0", 30);
  const JobId second = SubmitOn("cpu:0", 30);
  const JobId elsewhere = SubmitOn("cpu:1", 30);
  for (JobId id : {first, second, elsewhere}) Begin(id);
  now += absl::Hours(1);
  const JobId alone = SubmitAlone(10, 1, 5, "cpu:0");
  EXPECT_EQ(job(first).stop_sent, StopReason::kPreempted);
  EXPECT_EQ(job(second).stop_sent, StopReason::kPreempted);
  EXPECT_FALSE(job(elsewhere).stop_sent);
  End(first, Outcome::kStopped);
  EXPECT_TRUE(Waits(alone));
  End(second, Outcome::kStopped);
  EXPECT_EQ(DeviceOf(alone), small);
}

TEST_F(StepExclusiveTest, ItGivesWayAsAnyOther) {
  state.SetPolicy({.order = Order::kPriority});
  const JobId alone = SubmitAlone(10, 1, 0, "cpu:0");
  Begin(alone);
  now += absl::Hours(1);
  const JobId strong(++last_job);
  Send(JobSubmitted{
      .wanted_device = "cpu:0", .id = strong, .priority = 5, .bytes = 90});
  EXPECT_EQ(job(alone).stop_sent, StopReason::kPreempted);
  End(alone, Outcome::kStopped);
  EXPECT_EQ(DeviceOf(strong), small);
}

TEST_F(StepExclusiveTest, ADeviceIsFreeWhileItsCheckpointIsWritten) {
  state.SetPolicy({.order = Order::kPriority});
  const JobId alone = SubmitAlone(10, 1, 0, "cpu:0");
  Begin(alone);
  const JobId next = SubmitOn("cpu:0", 60);
  Send(JobHoldRequested{alone});
  End(alone, Outcome::kSaving);
  EXPECT_EQ(DeviceOf(next), small);
}

TEST_F(StepExclusiveTest, ServingMakesItLeave) {
  state.SetPolicy({.yields_to_serving = true});
  const JobId alone = SubmitAlone(10, 1, 0, "cpu:0");
  Begin(alone);
  const VersionId id = Create("digits", 1, 50);
  Send(VersionLoadRequested{id, "cpu:0"});
  EXPECT_FALSE(job(alone).stop_sent) << "cpu:0 would never be empty again";
  End(alone, Outcome::kSucceeded);
  EXPECT_EQ(version(id).device, small);
  Send(VersionLoaded{id, small, version(id).load});

  const JobId movable = SubmitAlone(10);
  EXPECT_EQ(DeviceOf(movable), large);
  Begin(movable);
  Send(VersionUnloadRequested{id});
  Send(VersionDrained{id});
  Send(VersionUnloaded{id, small});
  Send(VersionLoadRequested{id, "cpu:1"});
  EXPECT_EQ(job(movable).stop_sent, StopReason::kServing);
  End(movable, Outcome::kStopped);
  EXPECT_EQ(version(id).device, large);
  EXPECT_EQ(DeviceOf(movable), small);
}

TEST_F(StepExclusiveTest, AnElasticOneGrowsOnlyToEmptyDevices) {
  state.SetPolicy({.restart_cost = absl::ZeroDuration(),
                   .grow_after = absl::ZeroDuration()});
  Submit(10);
  const JobId elastic(++last_job);
  Send(JobSubmitted{.device_counts = {1, 2},
                    .demands = {.exclusive = true},
                    .id = elastic,
                    .bytes = 10});
  Begin(elastic);
  now += absl::Hours(1);
  Send(TimerFired{});
  EXPECT_FALSE(job(elastic).stop_sent);
  End(JobId(1), Outcome::kSucceeded);
  now += absl::Hours(1);
  Send(TimerFired{});
  EXPECT_EQ(job(elastic).stop_sent, StopReason::kResized);
}

TEST_F(StepExclusiveTest, ARestoredOneHasItsDeviceToItself) {
  Job row;
  row.id = JobId(5);
  row.bytes = 10;
  row.demands.exclusive = true;
  row.state = JobState::kRunning;
  row.attempt = 1;
  row.ranks = {{small}};
  state.RestoreJob(row);
  EXPECT_EQ(Free(small), 0u);
  Send(WorkerReady{.device = small, .running = {{row.id, 1}}});
  EXPECT_EQ(job(row.id).state, JobState::kRunning);
  EXPECT_TRUE(Waits(SubmitOn("cpu:0", 1)));
}

// The attempt was given up as lost, and its device was given to another job
// meanwhile.
TEST_F(StepExclusiveTest, ItIsTakenBackOnlyWhereNothingIs) {
  const JobId alone = SubmitAlone(10, 1, 0, "cpu:0");
  Begin(alone);
  Send(WorkerLost{small, "gone"});
  const JobId other = SubmitOn("cpu:0", 10);
  Send(WorkerReady{.device = small});
  EXPECT_EQ(DeviceOf(other), small);
  Send(WorkerReady{.device = small, .running = {{alone, 1}, {other, 1}}});
  EXPECT_THAT(job(alone).ranks, IsEmpty());
  EXPECT_THAT(state.devices().at(small).stray_attempts, SizeIs(1));
}

TEST_F(StepExclusiveTest, JobsOfItsShapeAreOnlySuch) {
  const JobId alone = SubmitAlone(10);
  const JobId shared = Submit(10);
  EXPECT_NE(state.ShapeOf(job(alone)), state.ShapeOf(job(shared)));
}

}  // namespace
}  // namespace gpupool::scheduler
