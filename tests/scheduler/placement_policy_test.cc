#include "scheduler/placement_policy.h"

#include "tests/scheduler/scheduler_fixture.h"

namespace gpupool::scheduler {
namespace {

using PlacementPolicyTest = SchedulerTest;

TEST_F(PlacementPolicyTest, FillsADeviceToTheLastByteAndNotBeyond) {
  const DeviceId device = AddReadyDevice("cpu:0", 100);
  EXPECT_EQ(Place(state, {100, ""}).fit, Fit::kNow);
  EXPECT_EQ(Place(state, {100, ""}).device, device);
  EXPECT_EQ(Place(state, {101, ""}).fit, Fit::kNever);
}

TEST_F(PlacementPolicyTest, NotNowDiffersFromNever) {
  AddReadyDevice("cpu:0", 100);
  Submit(60);
  EXPECT_EQ(Place(state, {41, ""}).fit, Fit::kNotNow);
  EXPECT_EQ(Place(state, {40, ""}).fit, Fit::kNow);
  EXPECT_EQ(Place(state, {101, ""}).fit, Fit::kNever);
}

TEST_F(PlacementPolicyTest, ADeviceThatIsAwayMeansNotNow) {
  AddDevice("cpu:0", 100);
  const Placement placement = Place(state, {50, ""});
  EXPECT_EQ(placement.fit, Fit::kNotNow);
  EXPECT_FALSE(placement.any_ready);
}

TEST_F(PlacementPolicyTest, PrefersTheDeviceWithFewerRunningAttempts) {
  const DeviceId first = AddReadyDevice("cpu:0", 1000);
  const DeviceId second = AddReadyDevice("cpu:1", 1000);
  EXPECT_EQ(job(Submit(10)).device, first);
  EXPECT_EQ(job(Submit(10)).device, second);
  EXPECT_EQ(job(Submit(10)).device, first);
}

TEST_F(PlacementPolicyTest, TakesTheTightestFitAmongEquallyBusyDevices) {
  AddReadyDevice("cpu:0", 1000);
  const DeviceId tight = AddReadyDevice("cpu:1", 120);
  AddReadyDevice("cpu:2", 500);
  EXPECT_EQ(Place(state, {100, ""}).device, tight);
}

TEST_F(PlacementPolicyTest, RespectsTheKind) {
  AddReadyDevice("cpu:0", 1000);
  EXPECT_EQ(Place(state, {10, "cuda"}).fit, Fit::kNever);
  EXPECT_EQ(NeverFitsText({10, "cuda"}, Place(state, {10, "cuda"})),
            "never fits: needs 10 B, but there is no cuda device");
}

TEST_F(PlacementPolicyTest, SaysWhatTheLargestDeviceHas) {
  AddReadyDevice("cpu:0", 2048 * kMiB);
  const Need need{3072 * kMiB, ""};
  EXPECT_EQ(NeverFitsText(need, Place(state, need)),
            "never fits: needs 3.0 GiB, the largest device has 2.0 GiB");
}

TEST_F(PlacementPolicyTest, HoldsOnlyADeviceWhoseJobsCouldMakeRoom) {
  const DeviceId served = AddReadyDevice("cpu:0", 100);
  const DeviceId busy = AddReadyDevice("cpu:1", 100);
  Load(Create("digits", 1, 80));
  ASSERT_EQ(version(VersionId(1)).device, served);
  Submit(90);
  EXPECT_EQ(DeviceToHold(state, {50, ""}), busy);
  EXPECT_EQ(DeviceToHold(state, {101, ""}), std::nullopt);
}

TEST_F(PlacementPolicyTest, ExcludedDevicesDoNotCount) {
  const DeviceId only = AddReadyDevice("cpu:0", 100);
  EXPECT_EQ(Place(state, {10, ""}, {only}).fit, Fit::kNotNow);
}

}  // namespace
}  // namespace gpupool::scheduler
