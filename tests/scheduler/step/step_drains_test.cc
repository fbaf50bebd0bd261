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

class StepDrainsTest : public SchedulerTest {
 protected:
  StepResult Drain(DeviceId device, bool lets_finish = false,
                   std::string reason = "") {
    return Send(DeviceDrainSet{device, DeviceDrain{lets_finish, reason}});
  }
  StepResult Resume(DeviceId device) {
    return Send(DeviceDrainSet{device, std::nullopt});
  }
  const Device& device(DeviceId id) const { return state.devices().at(id); }
};

TEST_F(StepDrainsTest, NoJobStartsThereUntilItIsResumed) {
  const DeviceId only = AddReadyDevice("cpu:0", 100);
  Drain(only, false, "new fan");
  const JobId id = Submit(10);
  EXPECT_EQ(job(id).state, JobState::kQueued);
  EXPECT_THAT(WaitingReason(state, job(id)),
              HasSubstr("waits for a device; cpu:0 is drained (new fan)"));
  const Explanation why = Explain(state, job(id), now);
  EXPECT_THAT(why.devices.at(0).obstacle, "drained: new fan");
  EXPECT_THAT(why.changes, Contains("`gpupool devices resume cpu:0`"));
  Resume(only);
  EXPECT_EQ(job(id).state, JobState::kStarting);
}

TEST_F(StepDrainsTest, AJobThatRunsThereCheckpointsAndGoesOnElsewhere) {
  const DeviceId first = AddReadyDevice("cpu:0", 100);
  const DeviceId second = AddReadyDevice("cpu:1", 100);
  const JobId id = Submit(10);
  Begin(id);
  ASSERT_EQ(DeviceOf(id), first);
  const StepResult drained = Drain(first);
  const auto stops = ActionsOf<StopJob>(drained);
  ASSERT_THAT(stops, SizeIs(1));
  EXPECT_EQ(stops[0].reason, StopReason::kDrained);
  ASSERT_THAT(drained.preemptions, SizeIs(1));
  EXPECT_EQ(drained.preemptions[0].reason, PreemptionReason::kDrain);
  const StepResult ended = End(id, Outcome::kStopped);
  EXPECT_THAT(ended.job_changes.at(0).reason,
              HasSubstr("its device is drained; waits to resume"));
  EXPECT_EQ(job(id).state, JobState::kStarting);
  EXPECT_EQ(DeviceOf(id), second);
  EXPECT_EQ(job(id).failures, 0u);
}

TEST_F(StepDrainsTest, AJobThatIsLetFinishIsNotTold) {
  const DeviceId only = AddReadyDevice("cpu:0", 100);
  const JobId id = Submit(10);
  Begin(id);
  const JobId next = Submit(10);
  Begin(next);
  EXPECT_THAT(ActionsOf<StopJob>(Drain(only, true)), IsEmpty());
  End(id, Outcome::kSucceeded);
  EXPECT_EQ(job(Submit(10)).state, JobState::kQueued);
  // Drains again, without letting jobs finish.
  EXPECT_THAT(ActionsOf<StopJob>(Drain(only)), SizeIs(1));
}

TEST_F(StepDrainsTest, OnSeveralDevicesAllRanksLeave) {
  const DeviceId first = AddReadyDevice("cpu:0", 100);
  AddReadyDevice("cpu:1", 100);
  const JobId id = SubmitGang(10, 2);
  Begin(id);
  EXPECT_THAT(ActionsOf<StopJob>(Drain(first)), SizeIs(2));
}

TEST_F(StepDrainsTest, NoModelIsPlacedThereAndThoseThatAreStay) {
  const DeviceId first = AddReadyDevice("cpu:0", 100);
  const VersionId served = Create("a", 1, 10);
  Load(served);
  Drain(first);
  EXPECT_EQ(version(served).state, VersionState::kReady);
  const VersionId next = Create("b", 1, 10);
  Send(VersionLoadRequested{next});
  EXPECT_FALSE(version(next).device);
  EXPECT_THAT(version(next).error, HasSubstr("cpu:0 is drained"));
  Resume(first);
  EXPECT_TRUE(version(next).device);
}

TEST_F(StepDrainsTest, HoldsForJobsThatAWorkerComesBackWith) {
  const DeviceId only = AddReadyDevice("cpu:0", 100);
  const JobId id = Submit(10);
  Begin(id);
  Drain(only);
  State restored;
  restored.AddDevice("cpu:0", "cpu", 100);
  restored.RestoreDrain(only, *device(only).drain);
  Job copy = job(id);
  copy.stop_sent.reset();
  const AttemptRef attempt{id, copy.attempt};
  restored.RestoreJob(std::move(copy));
  state = std::move(restored);
  restoring = true;
  const StepResult back =
      Send(WorkerReady{.device = only, .running = {attempt}});
  EXPECT_THAT(ActionsOf<StopJob>(back), SizeIs(1));
}

TEST_F(StepDrainsTest, RoomThatIsMadeThereIsGivenUp) {
  state.SetPolicy({.order = Order::kPriority});
  const DeviceId first = AddReadyDevice("cpu:0", 100);
  const DeviceId second = AddReadyDevice("cpu:1", 100);
  const JobId low = Submit(100, 0);
  Begin(low);
  const JobId other = Submit(100, 5);
  Begin(other);
  const JobId high = Submit(100, 9);
  ASSERT_THAT(job(high).reserved_devices, ElementsAre(first));
  Drain(first);
  EXPECT_THAT(job(high).reserved_devices, ElementsAre(second));
}

TEST_F(StepDrainsTest, ResumingEndsACooldown) {
  const DeviceId only = AddReadyDevice("cpu:0", 100);
  Send(WorkerLost{only, "illegal address", DeviceFault::kLostContext});
  Send(WorkerReady{.device = only});
  ASSERT_TRUE(device(only).cools());
  Drain(only);
  Resume(only);
  EXPECT_FALSE(device(only).cools());
  EXPECT_EQ(device(only).faults, 0u);
}

TEST_F(StepDrainsTest, TheSameAgainIsStale) {
  const DeviceId only = AddReadyDevice("cpu:0", 100);
  EXPECT_TRUE(Resume(only).stale);
  EXPECT_FALSE(Drain(only).stale);
  EXPECT_TRUE(Drain(only).stale);
  EXPECT_FALSE(Drain(only, false, "another reason").stale);
  EXPECT_TRUE(Drain(DeviceId(7)).stale);
}

}  // namespace
}  // namespace gpupool::scheduler
