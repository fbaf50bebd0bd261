#include "scheduler/place/need.h"

#include "tests/scheduler/scheduler_fixture.h"

namespace gpupool::scheduler {
namespace {

class NeedTest : public SchedulerTest {};

TEST_F(NeedTest, AJobNeedsWhatItWasSubmittedWith) {
  AddReadyDevice("cuda:0", 100);
  const JobId id(++last_job);
  Send(JobSubmitted{.wanted_device = "cuda",
                    .demands = {.host = {.milli_cores = 10}, .exclusive = true},
                    .id = id,
                    .bytes = 500,
                    .device_count = 2});
  const Need need = NeedOf(state, job(id));
  EXPECT_EQ(need.bytes, 500u);
  EXPECT_EQ(need.wanted_device, "cuda");
  EXPECT_EQ(need.devices, 2u);
  EXPECT_EQ(need.job, id);
  EXPECT_EQ(need.demands.host.milli_cores, 10u);
  EXPECT_TRUE(need.demands.exclusive);
  EXPECT_EQ(need.queue, &state.queues().at(0));
}

TEST_F(NeedTest, CpuDevicesAreSparedBesideAcceleratorsOnly) {
  AddReadyDevice("cpu:0", 100);
  EXPECT_FALSE(NeedOf(state, job(Submit(500))).spares_cpu);
  AddReadyDevice("cuda:0", 100);
  const Need need = NeedOf(state, job(Submit(500)));
  EXPECT_TRUE(need.spares_cpu);
  EXPECT_FALSE(DeviceMatches(*state.FindDevice("cpu:0"), need));
  EXPECT_TRUE(DeviceMatches(*state.FindDevice("cuda:0"), need));
  EXPECT_FALSE(KindMayMatch("cpu", need));
  EXPECT_TRUE(NeedOf(state, version(Create("digits", 1, 10))).spares_cpu);
}

TEST_F(NeedTest, AnExclusiveJobNeedsAllOfADevice) {
  const DeviceId id = AddReadyDevice("cpu:0", 100);
  const Device& device = state.devices().at(id);
  EXPECT_EQ(NeededOn({.bytes = 10, .wanted_device = ""}, device), 10u);
  EXPECT_EQ(
      NeededOn(
          {.bytes = 10, .wanted_device = "", .demands = {.exclusive = true}},
          device),
      100u);
}

TEST_F(NeedTest, TheLeastNeedAsksOnlyForADeviceOfTheQueue) {
  state.SetPolicy({.queues = {{.name = "night", .devices = {"cpu:1"}}}});
  AddReadyDevice("cpu:0", 100);
  AddReadyDevice("cpu:1", 100);
  const Queues& queues = state.queues();
  const Need least = LeastNeed(&queues.at(queues.NumberOf("night")));
  EXPECT_FALSE(DeviceMatches(*state.FindDevice("cpu:0"), least));
  EXPECT_TRUE(DeviceMatches(*state.FindDevice("cpu:1"), least));
  EXPECT_TRUE(DeviceMatches(*state.FindDevice("cpu:0"), LeastNeed(nullptr)));
  EXPECT_EQ(least.bytes, 0u);
}

}  // namespace
}  // namespace gpupool::scheduler
