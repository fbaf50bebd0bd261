// Jobs that declare needs for cores and memory of the host.
#include <gmock/gmock.h>

#include "scheduler/explain/explain.h"
#include "scheduler/explain/waiting_reason.h"
#include "scheduler/place/placement_policy.h"
#include "tests/scheduler/scheduler_fixture.h"

namespace gpupool::scheduler {
namespace {

using ::testing::HasSubstr;

class StepHostTest : public SchedulerTest {
 protected:
  // Two machines with four devices, eight cores and 80 bytes each.
  StepHostTest() {
    AddNodes(2, 4);
    for (uint32_t node : {0, 1}) {
      state.SetHost(node, {.milli_cores = 8000, .bytes = 80});
    }
  }

  JobId SubmitWith(HostNeed host, uint32_t devices = 1, int priority = 0) {
    const JobId id(++last_job);
    Send(JobSubmitted{.demands = {.host = host},
                      .id = id,
                      .priority = priority,
                      .bytes = 10,
                      .device_count = devices});
    return id;
  }
};

TEST_F(StepHostTest, JobsThatSayNothingAreNotCounted) {
  for (int i = 0; i < 40; ++i) {
    EXPECT_EQ(job(Submit(10)).state, JobState::kStarting);
  }
  EXPECT_TRUE(state.machines()[0].used.none());
}

TEST_F(StepHostTest, CoresAreTakenAndComeBack) {
  const JobId first = SubmitWith({.milli_cores = 6000});
  const JobId second = SubmitWith({.milli_cores = 6000});
  const JobId third = SubmitWith({.milli_cores = 6000});
  EXPECT_EQ(job(second).state, JobState::kStarting);
  EXPECT_NE(DeviceOf(first).value() / 4, DeviceOf(second).value() / 4);
  EXPECT_EQ(job(third).state, JobState::kQueued);
  EXPECT_THAT(WaitingReason(state, job(third)),
              HasSubstr("waits for 6 host cores of a machine; others leave 2 "
                        "cores and 80 B at most"));
  Begin(first);
  End(first, Outcome::kSucceeded);
  EXPECT_EQ(job(third).state, JobState::kStarting);
}

// No explanation says that the job may start on a device with free bytes whose
// machine has no cores left.
TEST_F(StepHostTest, AFreeDeviceOfAFullMachineIsExplained) {
  SubmitWith({.milli_cores = 6000});
  SubmitWith({.milli_cores = 6000});
  const Explanation why =
      Explain(state, job(SubmitWith({.milli_cores = 6000})), now);
  ASSERT_EQ(why.devices.size(), 8u);
  for (const Explanation::DeviceView& view : why.devices) {
    EXPECT_EQ(view.missing_bytes, 0u);
    EXPECT_EQ(view.obstacle, "its machine cannot spare 6 host cores");
  }
}

TEST_F(StepHostTest, AGangNeedsSoMuchForEachDevice) {
  SubmitWith({.bytes = 30});
  const JobId gang = SubmitWith({.bytes = 20}, 4);
  ASSERT_EQ(job(gang).state, JobState::kStarting);
  EXPECT_EQ(state.machines()[1].used.bytes, 80u);
  const JobId more = SubmitWith({.bytes = 20}, 3);
  EXPECT_EQ(job(more).state, JobState::kQueued) << "50 bytes are left";
}

TEST_F(StepHostTest, MoreThanAMachineHasNeverFits) {
  const Need need{.bytes = 10,
                  .wanted_device = "",
                  .devices = 1,
                  .demands = {.host = {.milli_cores = 8001}}};
  const Placement placement = Place(state, need);
  EXPECT_EQ(placement.fit, Fit::kNever);
  EXPECT_EQ(NeverFitsText(need, placement),
            "never fits: needs 8.001 host cores; no machine has so much");
  const Need gang{.bytes = 10,
                  .wanted_device = "",
                  .devices = 4,
                  .demands = {.host = {.bytes = 21}}};
  EXPECT_EQ(Place(state, gang).fit, Fit::kNever);
  const Need whole{.bytes = 10,
                   .wanted_device = "",
                   .devices = 8,
                   .demands = {.host = {.bytes = 20}}};
  EXPECT_EQ(Place(state, whole).fit, Fit::kNow);
}

class StepHostPriorityTest : public StepHostTest {
 protected:
  StepHostPriorityTest() { state.SetPolicy({.order = Order::kPriority}); }
};

TEST_F(StepHostPriorityTest, NobodyStopsForWhoWouldNotHaveTheCores) {
  // On each machine, a job of the same priority has the cores, and a job of a
  // lower priority has a device with most of its bytes.
  for (int i = 0; i < 2; ++i) SubmitWith({.milli_cores = 8000}, 1, 5);
  std::vector<JobId> low;
  for (int i = 0; i < 8; ++i) low.push_back(Submit(90));
  for (JobId id : low) {
    ASSERT_EQ(job(id).state, JobState::kStarting);
    Begin(id);
  }
  const JobId waits(++last_job);
  Send(JobSubmitted{.demands = {.host = {.milli_cores = 1000}},
                    .id = waits,
                    .priority = 5,
                    .bytes = 50});
  EXPECT_EQ(job(waits).state, JobState::kQueued);
  for (JobId id : low) EXPECT_FALSE(job(id).stop_sent) << id.value();
}

}  // namespace
}  // namespace gpupool::scheduler
