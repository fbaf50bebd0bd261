#include "scheduler/place/placement_policy.h"

#include <gmock/gmock.h>

#include "absl/strings/str_cat.h"
#include "tests/scheduler/scheduler_fixture.h"

namespace gpupool::scheduler {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

using PlacementPolicyTest = SchedulerTest;

TEST_F(PlacementPolicyTest, FillsADeviceToTheLastByteAndNotBeyond) {
  const DeviceId device = AddReadyDevice("cpu:0", 100);
  EXPECT_EQ(Place(state, {100, ""}).fit, Fit::kNow);
  EXPECT_THAT(Place(state, {100, ""}).devices, ElementsAre(device));
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
  EXPECT_EQ(DeviceOf(Submit(10)), first);
  EXPECT_EQ(DeviceOf(Submit(10)), second);
  EXPECT_EQ(DeviceOf(Submit(10)), first);
}

TEST_F(PlacementPolicyTest, TakesTheTightestFitAmongEquallyBusyDevices) {
  AddReadyDevice("cpu:0", 1000);
  const DeviceId tight = AddReadyDevice("cpu:1", 120);
  AddReadyDevice("cpu:2", 500);
  EXPECT_THAT(Place(state, {100, ""}).devices, ElementsAre(tight));
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
  EXPECT_THAT(DevicesToHold(state, {50, ""}), ElementsAre(busy));
  EXPECT_THAT(DevicesToHold(state, {101, ""}), IsEmpty());
}

TEST_F(PlacementPolicyTest, ExcludedDevicesDoNotCount) {
  const DeviceId only = AddReadyDevice("cpu:0", 100);
  EXPECT_EQ(Place(state, {10, ""}, {only}).fit, Fit::kNotNow);
}

// ------------------------------------------------------------ several devices

TEST_F(PlacementPolicyTest, AGangGetsAllItsDevicesOrNone) {
  const DeviceId first = AddReadyDevice("cpu:0", 100);
  const DeviceId second = AddReadyDevice("cpu:1", 100);
  EXPECT_THAT(Place(state, {100, "", 2}).devices, ElementsAre(first, second));
  Submit(1);
  const Placement placement = Place(state, {100, "", 2});
  EXPECT_EQ(placement.fit, Fit::kNotNow);
  EXPECT_THAT(placement.devices, IsEmpty());
}

// Two machines. Within each, 0-1 and 2-3 have NVLink.
class ConnectedDevicesTest : public SchedulerTest {
 protected:
  void SetUp() override {
    AddNodes(2, 4);
    for (uint64_t a = 0; a < 8; ++a) {
      for (uint64_t b = a / 4 * 4; b < a; ++b) {
        state.Connect(DeviceId(a), DeviceId(b),
                      a / 2 == b / 2 ? Link::kNvlink : Link::kSystem);
      }
    }
  }
  std::vector<DeviceId> Choose(uint32_t devices) {
    return Place(state, {50, "", devices}).devices;
  }
  static std::vector<DeviceId> Ids(std::initializer_list<uint64_t> numbers) {
    return {numbers.begin(), numbers.end()};
  }
};

TEST_F(ConnectedDevicesTest, AGangGetsThoseThatAreConnectedBest) {
  EXPECT_EQ(Choose(2), Ids({0, 1}));
  EXPECT_EQ(DeviceOf(Submit(100)), DeviceId(0));
  EXPECT_EQ(Choose(2), Ids({2, 3}));
}

TEST_F(ConnectedDevicesTest, AFastLinkIsWorthAnEmptierMachine) {
  Submit(100);
  const JobId second = Submit(100);
  Submit(100);
  End(second, Outcome::kSucceeded);
  // 1 and 3 are free on the first machine.
  EXPECT_EQ(Choose(2), Ids({4, 5}));
  EXPECT_EQ(Choose(1), Ids({1}));
}

TEST_F(ConnectedDevicesTest, ABusyDeviceIsWorseThanASlowLink) {
  Submit(10);
  Submit(10);
  Submit(10);
  // 3 is idle, and so are the devices of the other machine.
  EXPECT_EQ(Choose(4), Ids({4, 5, 6, 7}));
  EXPECT_EQ(Choose(2), Ids({4, 5}));
}

TEST_F(ConnectedDevicesTest, OneDeviceDoesNotPartAPair) {
  EXPECT_EQ(DeviceOf(Submit(100)), DeviceId(0));
  EXPECT_EQ(DeviceOf(Submit(100)), DeviceId(1));
  EXPECT_EQ(Choose(2), Ids({2, 3}));
}

TEST_F(PlacementPolicyTest, AGangStaysWithinOneKind) {
  AddReadyDevice("cpu:0", 100);
  const DeviceId first = AddReadyDevice("cuda:0", 100);
  const DeviceId second = AddReadyDevice("cuda:1", 100);
  EXPECT_THAT(Place(state, {50, "", 2}).devices, ElementsAre(first, second));
  EXPECT_EQ(Place(state, {50, "", 3}).fit, Fit::kNever);
  EXPECT_EQ(Place(state, {50, "cpu", 2}).fit, Fit::kNever);
}

TEST_F(PlacementPolicyTest, AGangTakesTheKindWhoseWorstDeviceIsTheBest) {
  const DeviceId first = AddReadyDevice("cpu:0", 500);
  const DeviceId second = AddReadyDevice("cpu:1", 500);
  AddReadyDevice("cuda:0", 100);
  AddReadyDevice("cuda:1", 1000);
  EXPECT_THAT(Place(state, {100, "", 2}).devices, ElementsAre(first, second));
}

TEST_F(PlacementPolicyTest, TwoGangsNeverShareADevice) {
  for (const char* name : {"cpu:0", "cpu:1", "cpu:2"})
    AddReadyDevice(name, 100);
  SubmitGang(10, 2);
  EXPECT_EQ(Place(state, {10, "", 2}).fit, Fit::kNotNow);
  EXPECT_EQ(Place(state, {90, "", 1}).fit, Fit::kNow);
}

TEST_F(PlacementPolicyTest, AGangNeverFitsWhereTooFewDevicesAreLargeEnough) {
  AddReadyDevice("cpu:0", 200 * kMiB);
  AddReadyDevice("cpu:1", 100 * kMiB);
  AddDevice("cuda:0", 200 * kMiB);
  const Need any{150 * kMiB, "", 2};
  EXPECT_EQ(Place(state, any).fit, Fit::kNever);
  EXPECT_EQ(NeverFitsText(any, Place(state, any)),
            "never fits: needs 2 devices of one kind with 150.0 MiB each; "
            "large enough are 1 of 2 cpu devices and 1 of 1 cuda devices");
  const Need four{100 * kMiB, "cpu", 4};
  EXPECT_EQ(NeverFitsText(four, Place(state, four)),
            "never fits: needs 4 cpu devices with 100.0 MiB each; large enough "
            "are 2 of 2 cpu devices");
  const Need none{100 * kMiB, "tpu", 4};
  EXPECT_EQ(NeverFitsText(none, Place(state, none)),
            "never fits: needs 4 tpu devices with 100.0 MiB each; there is "
            "none");
}

TEST_F(PlacementPolicyTest, AGangWhoseDeviceIsAwayFitsNotNow) {
  AddReadyDevice("cpu:0", 100);
  AddDevice("cpu:1", 100);
  EXPECT_EQ(Place(state, {50, "", 2}).fit, Fit::kNotNow);
  EXPECT_THAT(DevicesToHold(state, {50, "", 2}), IsEmpty());
}

TEST_F(PlacementPolicyTest, HoldsAsManyDevicesAsAGangNeeds) {
  const DeviceId first = AddReadyDevice("cpu:0", 100);
  const DeviceId second = AddReadyDevice("cpu:1", 100);
  const DeviceId third = AddReadyDevice("cpu:2", 100);
  for (uint64_t bytes : {30, 20, 10}) Submit(bytes);
  EXPECT_THAT(DevicesToHold(state, {95, "", 2}), ElementsAre(second, third));
  EXPECT_TRUE(AreWorthHolding(state, {95, "", 2}, {second, third}));
  Send(WorkerLost{third, "gone"});
  EXPECT_FALSE(AreWorthHolding(state, {95, "", 2}, {second, third}));
  EXPECT_THAT(DevicesToHold(state, {95, "", 2}), ElementsAre(first, second));
}

TEST_F(PlacementPolicyTest, AFractionThatCanBeRaisedMeansNotNow) {
  const DeviceId small = AddReadyDevice("cpu:0", 100);
  const DeviceId other = AddReadyDevice("cpu:1", 100);
  Send(MemoryFractionSet{small, 0.25});
  EXPECT_THAT(Place(state, {50, ""}).devices, ElementsAre(other));
  EXPECT_EQ(Place(state, {50, ""}).held_back, nullptr);
  const Placement both = Place(state, {50, "", 2});
  EXPECT_EQ(both.fit, Fit::kNotNow);
  EXPECT_EQ(HeldBackText(both),
            "; a memory fraction of 0.25 keeps it off cpu:0, which has 100 B: "
            "raise it with `gpupool devices fraction`");
  EXPECT_TRUE(DevicesToHold(state, {50, "", 2}).empty());
  EXPECT_EQ(Place(state, {101, ""}).fit, Fit::kNever);
}

TEST_F(TwoMachines, WhatNoMachineHasEnoughOfGetsAllOfThemOfTheKind) {
  const Need need{.bytes = 100, .wanted_device = "cuda", .devices = 4};
  EXPECT_THAT(Place(state, need).devices, SizeIs(4));
  EXPECT_THAT(DevicesToHold(state, need), SizeIs(4));
}

}  // namespace
}  // namespace gpupool::scheduler
