#include "scheduler/place/free_devices.h"

#include <gmock/gmock.h>

#include "scheduler/place/placement_policy.h"
#include "tests/scheduler/scheduler_fixture.h"

namespace gpupool::scheduler {
namespace {

using FreeDevicesTest = TwoMachines;

TEST_F(FreeDevicesTest, NeverDeniesRoomThatIsThere) {
  for (uint64_t filled = 0; filled < 12; ++filled) {
    FreeDevices free(state);
    for (const char* kind : {"", "cuda", "cpu"}) {
      for (uint32_t devices = 1; devices <= 12; ++devices) {
        const Need need{
            .bytes = 100, .wanted_device = kind, .devices = devices};
        if (Place(state, need).fit != Fit::kNow) continue;
        EXPECT_TRUE(free.MayHold(need)) << devices << " " << kind;
      }
    }
    Send(JobSubmitted{.wanted_device = filled < 8 ? "cpu" : "cuda",
                      .id = JobId(filled + 1),
                      .bytes = 100});
  }
  EXPECT_FALSE(FreeDevices(state).MayHold({.bytes = 1}));
}

TEST_F(FreeDevicesTest, KnowsExactlyWhatNeverFits) {
  const DeviceId large =
      state.AddDevice("tpu:0", "tpu", 500, {.fraction = 0.5});
  Send(WorkerReady{.device = large});
  Submit(100);
  FreeDevices free(state);
  for (const char* kind : {"", "cuda", "cpu", "tpu", "none"}) {
    for (uint32_t devices = 0; devices <= 12; ++devices) {
      for (uint64_t bytes : {0, 1, 100, 101, 250, 251, 500, 501}) {
        const Need need{bytes, kind, devices};
        EXPECT_EQ(free.MayEverHold(need),
                  devices > 0 && Place(state, need).fit != Fit::kNever)
            << bytes << " " << kind << " " << devices;
      }
    }
  }
}

TEST_F(FreeDevicesTest, NamedDevicesAndExclusiveNeedsAreNotDenied) {
  Send(JobSubmitted{.wanted_device = "cuda:1",
                    .demands = {.exclusive = true},
                    .id = JobId(1),
                    .bytes = 10});
  Send(JobSubmitted{.wanted_device = "cpu:2", .id = JobId(2), .bytes = 10});
  FreeDevices free(state);
  size_t now = 0;
  size_t never = 0;
  for (const char* wanted :
       {"", "any", "cuda", "cpu", "cuda:0", "cuda:1", "cpu:2", "cpu:99"}) {
    for (uint64_t bytes : {1, 90, 91, 100, 101}) {
      for (int flags = 0; flags < 4; ++flags) {
        Need need{bytes, wanted};
        need.demands.exclusive = (flags & 1) != 0;
        need.spares_cpu = (flags & 2) != 0;
        const Fit fit = Place(state, need).fit;
        now += fit == Fit::kNow;
        never += fit == Fit::kNever;
        EXPECT_TRUE(free.MayHold(need) || fit != Fit::kNow) << wanted << bytes;
        EXPECT_EQ(free.MayEverHold(need), fit != Fit::kNever)
            << wanted << bytes;
      }
    }
  }
  EXPECT_GT(now, 50u);
  EXPECT_GT(never, 20u);
}

TEST_F(FreeDevicesTest, SeesBytesAndWhatIsExcluded) {
  Send(JobSubmitted{.wanted_device = "cpu", .id = JobId(1), .bytes = 40});
  const DeviceId taken = DeviceOf(JobId(1));
  absl::btree_set<DeviceId> others;
  for (const auto& [id, device] : state.devices()) {
    if (device.kind == "cpu" && id != taken) others.insert(id);
  }
  FreeDevices free(state, others);
  EXPECT_TRUE(free.MayHold({.bytes = 60, .wanted_device = "cpu"}));
  EXPECT_FALSE(free.MayHold({.bytes = 61, .wanted_device = "cpu"}));
  EXPECT_TRUE(free.MayHold({.bytes = 61}));
}

TEST_F(FreeDevicesTest, TwoJobsOnSeveralNeverShareADevice) {
  Send(JobSubmitted{
      .wanted_device = "cuda", .id = JobId(1), .bytes = 10, .device_count = 2});
  FreeDevices free(state);
  EXPECT_TRUE(
      free.MayHold({.bytes = 90, .wanted_device = "cuda", .devices = 2}));
  EXPECT_FALSE(
      free.MayHold({.bytes = 90, .wanted_device = "cuda", .devices = 3}));
  EXPECT_TRUE(free.MayHold({.bytes = 90, .wanted_device = "cuda"}));
}

TEST_F(FreeDevicesTest, WithoutSomeDevicesItIsAsIfLookedAtAgain) {
  for (uint64_t filled = 0; filled < 12; ++filled) {
    FreeDevices all(state);
    for (uint64_t left_out = 0; left_out < 1u << 12; left_out += 37) {
      absl::btree_set<DeviceId> excluded;
      for (const auto& [id, device] : state.devices()) {
        if (left_out >> id.value() & 1) excluded.insert(id);
      }
      FreeDevices fewer = all.Without(excluded);
      FreeDevices fresh(state, excluded);
      for (uint32_t devices : {12, 1, 3, 2, 8, 5}) {
        for (uint64_t bytes : {0, 50, 60, 100, 101}) {
          const Need need{.bytes = bytes, .devices = devices};
          ASSERT_EQ(fewer.MayHold(need), fresh.MayHold(need));
          ASSERT_EQ(fewer.MayEverHold(need), fresh.MayEverHold(need));
        }
      }
    }
    JobSubmitted job{.id = JobId(filled + 1)};
    job.bytes = 50;
    job.wanted_device = filled < 8 ? "cpu" : "cuda";
    job.device_count = filled % 2 == 0 ? 1u : 2u;
    Send(job);
  }
}

}  // namespace
}  // namespace gpupool::scheduler
