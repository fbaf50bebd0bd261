#include <gmock/gmock.h>

#include "scheduler/explain/waiting_reason.h"
#include "tests/scheduler/scheduler_fixture.h"

namespace gpupool::scheduler {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

class StepPlansTest : public SchedulerTest {};

TEST_F(StepPlansTest, AJobThatWaitsIsPlacedByItsNewPlan) {
  const DeviceId device = AddReadyDevice("cpu:0", 100);
  const JobId first = Submit(60);
  const JobId second = Submit(60);
  Send(JobPlanned{second, 30});
  EXPECT_EQ(DeviceOf(first), device);
  EXPECT_EQ(DeviceOf(second), device);
  EXPECT_EQ(state.FindDevice(device)->committed_bytes(), 90u);
}

TEST_F(StepPlansTest, ALiveJobKeepsItsBytesUntilItGivesThemBack) {
  const DeviceId device = AddReadyDevice("cpu:0", 100);
  const JobId id = Submit(60);
  Send(JobPlanned{id, 70});
  EXPECT_EQ(state.FindDevice(device)->committed_bytes(), 60u);
  End(id, Outcome::kInterrupted);
  now += absl::Hours(1);
  const auto starts = ActionsOf<StartJob>(Send(TimerFired{}));
  ASSERT_THAT(starts, SizeIs(1));
  EXPECT_EQ(starts[0].limit_bytes, 70u);
  EXPECT_EQ(state.FindDevice(device)->committed_bytes(), 70u);
}

TEST_F(StepPlansTest, AServedVersionKeepsItsBytesUntilItIsUnloaded) {
  const DeviceId device = AddReadyDevice("cpu:0", 100);
  const VersionId id = Create("m", 1, 40);
  Load(id);
  Send(VersionPlanned{id, 50});
  EXPECT_EQ(state.FindDevice(device)->committed_bytes(), 40u);
  Send(VersionUnloadRequested{id});
  Send(VersionDrained{id});
  Send(VersionUnloaded{id, device});
  EXPECT_EQ(version(id).bytes, 50u);
  Load(id);
  EXPECT_EQ(state.FindDevice(device)->committed_bytes(), 50u);
}

TEST_F(StepPlansTest, NothingStartsAndNothingLoadsWhileStartsAreHeld) {
  AddReadyDevice("cpu:0", 100);
  const VersionId id = Create("m", 1, 10);
  Send(StartsHeld{true});
  const JobId waiting = Submit(20);
  EXPECT_TRUE(ActionsOf<LoadVersion>(Send(VersionLoadRequested{id})).empty());
  EXPECT_EQ(job(waiting).state, JobState::kQueued);
  EXPECT_THAT(WaitingReasons(state, 1)[waiting],
              HasSubstr("plans are made again"));
  const StepResult released = Send(StartsHeld{false});
  EXPECT_THAT(ActionsOf<LoadVersion>(released), SizeIs(1));
  EXPECT_THAT(ActionsOf<StartJob>(released), SizeIs(1));
}

TEST_F(StepPlansTest, PlansOfWhatIsGoneAreStale) {
  AddReadyDevice("cpu:0", 100);
  const JobId id = Submit(20);
  Send(JobCancelRequested{id});
  End(id, Outcome::kStopped);
  EXPECT_TRUE(Send(JobPlanned{id, 70}).stale);
  EXPECT_TRUE(Send(JobPlanned{JobId(99), 70}).stale);
  EXPECT_TRUE(Send(VersionPlanned{VersionId(99), 70}).stale);
}

}  // namespace
}  // namespace gpupool::scheduler
