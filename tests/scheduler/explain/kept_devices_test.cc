#include "scheduler/explain/kept_devices.h"

#include <gmock/gmock.h>

#include "scheduler/explain/explain.h"
#include "scheduler/explain/waiting_reason.h"
#include "scheduler/order/queue_policy.h"
#include "tests/scheduler/scheduler_fixture.h"

namespace gpupool::scheduler {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A device of 100 bytes with one running job, and a waiting job that has been
// passed too often.
class KeptDevicesTest : public SchedulerTest {
 protected:
  KeptDevicesTest() { device = AddReadyDevice("cuda:0", 100); }

  // Lets other jobs pass a job that needs `bytes` or all of the device.
  JobId Keeper(uint64_t bytes, bool exclusive) {
    Submit(10);
    const JobId id(++last_job);
    Send(JobSubmitted{.wanted_device = "cuda:0",
                      .demands = {.exclusive = exclusive},
                      .id = id,
                      .bytes = bytes});
    for (uint32_t i = 0; i < kMaxPasses; ++i) {
      const JobId brief = Submit(10);
      EXPECT_EQ(job(brief).state, JobState::kStarting);
      End(brief, Outcome::kSucceeded);
    }
    EXPECT_THAT(job(id).held_devices, ElementsAre(device));
    return id;
  }

  DeviceId device;
};

TEST_F(KeptDevicesTest, AJobThatMayNotStartThereIsToldWhomItWaitsFor) {
  const JobId keeper = Keeper(10, true);
  const JobId late = Submit(10);
  const std::string text =
      "cuda:0 is kept free for job 2, which wants it to itself; 1 job is ahead";
  EXPECT_EQ(WaitingReason(state, job(late)), text);
  EXPECT_EQ(WaitingReasons(state, 10)[late], text);
  const Explanation why = Explain(state, job(late), now);
  EXPECT_EQ(why.waits_for, text);
  EXPECT_EQ(why.devices[0].obstacle,
            "kept free for job 2, which wants it to itself");
  EXPECT_THAT(KeepersBefore(state, job(late)), ElementsAre(&job(keeper)));
  EXPECT_THAT(KeepersBefore(state, job(keeper)), IsEmpty());
}

TEST_F(KeptDevicesTest, OneThatSharesIsAhead) {
  Keeper(95, false);
  const JobId late = Submit(10);
  EXPECT_THAT(WaitingReason(state, job(late)),
              HasSubstr("cuda:0 is kept free for job 2, which is ahead"));
}

TEST_F(KeptDevicesTest, AJobThatFitsElsewhereIsNotKeptAway) {
  const JobId keeper = Keeper(10, true);
  const JobId late = Submit(10);
  const Keepers ahead = KeepersBefore(state, job(late));
  EXPECT_TRUE(KeptText(state, job(late), ahead).has_value());
  EXPECT_FALSE(KeptText(state, job(late), {}).has_value());
  AddReadyDevice("cuda:1", 100);
  EXPECT_NE(job(late).state, JobState::kQueued);
  EXPECT_EQ(job(keeper).state, JobState::kQueued);
  EXPECT_FALSE(KeptText(state, job(late), {&job(keeper)}).has_value());
}

TEST_F(KeptDevicesTest, WithBackfillNobodyIsAboutToStartWhoWouldDelayOthers) {
  state.SetPolicy({.order = Order::kBackfill});
  const auto submit = [&](uint64_t bytes, absl::Duration run) {
    const JobId id(++last_job);
    Send(JobSubmitted{.id = id, .bytes = bytes, .expected_run = run});
    if (IsLive(job(id).state)) Begin(id);
    return id;
  };
  submit(60, absl::Hours(1));
  submit(60, absl::Hours(1));
  const JobId late = submit(40, absl::Hours(9));
  EXPECT_EQ(job(late).state, JobState::kQueued);
  EXPECT_THAT(WaitingReason(state, job(late)),
              HasSubstr("it would delay a job that is ahead"));
}

}  // namespace
}  // namespace gpupool::scheduler
