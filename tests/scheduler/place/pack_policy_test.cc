#include "scheduler/place/pack_policy.h"

#include <gmock/gmock.h>

#include "tests/scheduler/scheduler_fixture.h"

namespace gpupool::scheduler {
namespace {

using ::testing::IsEmpty;

// Two machines with two devices of 100 bytes each.
class PackPolicyTest : public SchedulerTest {
 protected:
  PackPolicyTest() { SetRule(PlacementRule::kPack); }
  void SetRule(PlacementRule rule) {
    QueuePolicy policy;
    policy.placement = rule;
    state.SetPolicy(policy);
  }
  void Learn(int times, uint64_t bytes, uint32_t devices = 1,
             HostNeed host = {}) {
    for (int i = 0; i < times; ++i) {
      state.LearnNeed({"", devices, bytes, host});
    }
  }
  uint64_t PlaceOf(JobId id) const { return DeviceOf(id).value(); }
};

TEST_F(PackPolicyTest, SmallJobsShareADeviceAndLeaveWholeOnesFree) {
  AddNodes(2, 2);
  Learn(50, 100);
  Learn(50, 30);
  const JobId first = Submit(30);
  EXPECT_EQ(PlaceOf(Submit(30)), PlaceOf(first));
  EXPECT_EQ(PlaceOf(Submit(30)), PlaceOf(first));
  EXPECT_EQ(job(SubmitGang(100, 2)).state, JobState::kStarting);
}

TEST_F(PackPolicyTest, SpreadTakesAnotherDeviceForEach) {
  SetRule(PlacementRule::kSpread);
  AddNodes(2, 2);
  const JobId first = Submit(30);
  EXPECT_NE(PlaceOf(Submit(30)), PlaceOf(first));
}

TEST_F(PackPolicyTest, BestFitTakesTheDeviceWithTheLeastLeft) {
  SetRule(PlacementRule::kBestFit);
  AddNodes(2, 2);
  const JobId large = Submit(60);
  const JobId whole = Submit(90);
  EXPECT_NE(PlaceOf(whole), PlaceOf(large));
  EXPECT_EQ(PlaceOf(Submit(10)), PlaceOf(whole));
  EXPECT_EQ(PlaceOf(Submit(20)), PlaceOf(large));
}

TEST_F(PackPolicyTest, WithoutAnyHistoryItIsBestFitByMachine) {
  AddNodes(2, 2);
  const JobId first = Submit(30);
  EXPECT_EQ(PlaceOf(Submit(30)) / 2, PlaceOf(first) / 2);
}

TEST_F(PackPolicyTest, ThePlaceDependsOnWhatUsuallyComes) {
  AddNodes(2, 2);
  Learn(1000, 50);
  // Two jobs of 50 fit on every device. A job of 60 leaves 40 on it, which no
  // job asks for. On a device where only 40 are left, 40 cost nothing.
  const JobId large = Submit(60);
  EXPECT_EQ(PlaceOf(Submit(40)), PlaceOf(large));
}

TEST_F(PackPolicyTest, DevicesWithoutCoresAreNotSpoiledFurther) {
  AddNodes(2, 1);
  for (uint32_t node : {0, 1}) state.SetHost(node, {.milli_cores = 8000});
  Learn(100, 50, 1, {.milli_cores = 4000});
  const JobId hungry(++last_job);
  Send(JobSubmitted{
      .demands = {.host = {.milli_cores = 7000}}, .id = hungry, .bytes = 10});
  // The bytes that are left there are useless for other jobs.
  EXPECT_EQ(PlaceOf(Submit(20)), PlaceOf(hungry));
}

TEST_F(PackPolicyTest, WhatIsServedIsSpread) {
  AddNodes(1, 2);
  Learn(100, 30);
  const VersionId first = Create("m", 1, 30);
  Load(first);
  const VersionId second = Create("n", 1, 30);
  Load(second);
  EXPECT_NE(*version(first).device, *version(second).device);
}

TEST_F(PackPolicyTest, NothingWithoutRoom) {
  AddNodes(2, 2);
  const std::vector<std::vector<const Device*>> usable(state.sites());
  EXPECT_THAT(PackOnOneSite(state, {.bytes = 1, .wanted_device = ""}, usable),
              IsEmpty());
}

}  // namespace
}  // namespace gpupool::scheduler
