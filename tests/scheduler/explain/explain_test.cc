#include "scheduler/explain/explain.h"

#include <gmock/gmock.h>

#include "scheduler/explain/waiting_reason.h"
#include "tests/scheduler/scheduler_fixture.h"

namespace gpupool::scheduler {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ExplainTest : public SchedulerTest {
 protected:
  ExplainTest() { device = AddReadyDevice("cpu:0", 100); }
  Explanation Of(JobId id) { return Explain(state, job(id), now); }
  // Starts a job whose bytes fill the device.
  JobId Running(int priority = 0) {
    const JobId id = Submit(100, priority);
    Begin(id);
    return id;
  }
  DeviceId device;
};

TEST_F(ExplainTest, AJobThatRunsWaitsForNothing) {
  const Explanation why = Of(Running());
  EXPECT_EQ(why.waits_for, "");
  EXPECT_EQ(why.position, 0u);
  EXPECT_THAT(why.changes, IsEmpty());
}

TEST_F(ExplainTest, NamesThePlaceThoseAheadAndWhatIsMissing) {
  const JobId running = Running();
  const JobId first = Submit(60);
  const JobId second = Submit(60);
  const Explanation why = Of(second);
  EXPECT_EQ(why.waits_for, WaitingReasons(state, 10)[second]);
  EXPECT_EQ(why.position, 2u);
  EXPECT_THAT(why.ahead, ElementsAre(first));
  ASSERT_EQ(why.devices.size(), 1u);
  EXPECT_EQ(why.devices[0].missing_bytes, 60u);
  EXPECT_EQ(why.devices[0].obstacle, "lacks 60 B");
  ASSERT_EQ(why.running.size(), 1u);
  EXPECT_EQ(why.running[0].job, running);
  EXPECT_EQ(why.running[0].reason,
            "keeps its device until it ends: the order is fifo");
  EXPECT_THAT(why.changes, ElementsAre("job 1 ends"));
}

TEST_F(ExplainTest, TellsWhenARunningJobEndsAsFarAsItIsKnown) {
  const JobId running = Running();
  Send(ProgressMade{device, {running, 1}, 1, absl::Seconds(90)});
  now += absl::Seconds(30);
  const Explanation why = Of(Submit(60));
  EXPECT_EQ(why.running[0].left, absl::Seconds(60));
  EXPECT_THAT(why.changes, ElementsAre("job 1 ends, in about 1m"));
}

TEST_F(ExplainTest, TellsWhoGivesWayAndWhen) {
  state.SetPolicy({.order = Order::kLeastAttained,
                   .hysteresis = 2,
                   .min_run = absl::Minutes(1)});
  Running();
  now += absl::Seconds(20);
  const JobId waiting = Submit(60, 5);
  Explanation why = Of(waiting);
  EXPECT_FALSE(why.running[0].gives_way);
  EXPECT_EQ(why.running[0].reason, "is in its minimum run for another 40s");
  now += absl::Minutes(1);
  why = Of(waiting);
  EXPECT_TRUE(why.running[0].gives_way);
  EXPECT_EQ(why.running[0].reason, "has the lower priority");
  Send(TimerFired{});
  why = Of(waiting);
  EXPECT_TRUE(why.running[0].gives_way);
  EXPECT_THAT(why.running[0].reason, HasSubstr("was told to checkpoint"));
  EXPECT_THAT(why.changes, ElementsAre("job 1 stops after its checkpoint"));
}

TEST_F(ExplainTest, OfEqualPriorityTheStandingsAreTold) {
  state.SetPolicy({.order = Order::kLeastAttained, .hysteresis = 2});
  Running();
  now += absl::Minutes(15);
  const Explanation why = Of(Submit(60));
  EXPECT_EQ(why.running[0].reason,
            "stands at 900 device seconds; jobs above 1200 give way");
}

TEST_F(ExplainTest, HoldAndPrerequisitesStandAside) {
  const JobId first = Running();
  const JobId held(++last_job);
  Send(JobSubmitted{
      .after_any = {first}, .held = true, .id = held, .bytes = 10});
  const Explanation why = Of(held);
  EXPECT_EQ(why.position, 0u);
  EXPECT_THAT(why.changes, ElementsAre("`gpupool release 2`", "job 1 ends"));
}

TEST_F(ExplainTest, AnUntriedJobStandsAside) {
  const JobId id(++last_job);
  Send(JobSubmitted{.untried = true, .id = id, .bytes = 10});
  EXPECT_THAT(Of(id).changes,
              ElementsAre("one step of it has been made alone"));
  EXPECT_EQ(WaitingReason(state, job(id)),
            "is tried alone before it gets a device");
}

TEST_F(ExplainTest, BackOffTellsHowLongItLasts) {
  const JobId id = Running();
  End(id, Outcome::kInterrupted);
  const Explanation why = Of(id);
  EXPECT_EQ(why.waits_for, "backs off for another 1s after 1 of 3 attempts");
  EXPECT_THAT(why.changes, ElementsAre("`gpupool requeue 1` ends the wait"));
}

TEST_F(ExplainTest, ModelsFractionsAndLostWorkersAreNamed) {
  Load(Create("digits", 1, 80));
  const JobId waiting = Submit(60);
  EXPECT_THAT(Of(waiting).changes,
              Contains("`gpupool models unload digits` gives back 80 B on "
                       "cpu:0"));
  Send(WorkerLost{device, "gone"});
  const Explanation lost = Of(waiting);
  EXPECT_EQ(lost.devices[0].obstacle, "its worker is not ready");
  EXPECT_THAT(lost.changes, Contains("the worker of cpu:0 comes back"));
}

TEST_F(ExplainTest, AMemoryFractionIsNamed) {
  const JobId waiting = Submit(60);
  EXPECT_EQ(job(waiting).state, JobState::kStarting);
  Send(MemoryFractionSet{AddReadyDevice("cpu:1", 100), 0.1});
  const JobId late = Submit(90);
  const Explanation why = Of(late);
  EXPECT_EQ(why.devices[1].obstacle,
            "its memory fraction of 0.1 leaves only "
            "10 B");
}

TEST_F(ExplainTest, WhatFitsNowhereSaysSo) {
  const Explanation why = Of(Submit(500));
  EXPECT_THAT(why.devices[0].obstacle, HasSubstr("too small"));
  EXPECT_THAT(why.changes, Contains(HasSubstr("only larger devices")));
}

TEST_F(ExplainTest, ADeviceThatThePoolLostIsToldToBeMissing) {
  const JobId id(++last_job);
  Send(JobSubmitted{.wanted_device = "cuda:1", .id = id, .bytes = 1});
  EXPECT_THAT(Of(id).changes,
              ElementsAre("the server is started with --devices that has "
                          "cuda:1, or the job is submitted anew without "
                          "`device`"));
}

TEST_F(ExplainTest, ADeviceThatItsQueueMayNotUseIsTheQueues) {
  AddReadyDevice("cpu:1", 100);
  state.SetPolicy({.queues = {{.name = "one", .devices = {"cpu:0"}}}});
  const JobId id(++last_job);
  Send(JobSubmitted{
      .queue_name = "one", .wanted_device = "cpu:1", .id = id, .bytes = 1});
  EXPECT_THAT(Of(id).changes, Contains(HasSubstr("queue 'one' gets cpu:1")));
}

// The return of a worker, or the end of a drain, does not help a job that will
// never fit there.
TEST_F(ExplainTest, WhatLastsIsToldBeforeWhatPasses) {
  AddReadyDevice("cpu:1", 500);
  const JobId id = Submit(400);
  Begin(id);
  Send(WorkerLost{device, "gone"});
  const Explanation why = Of(Submit(300));
  EXPECT_EQ(why.devices[0].obstacle, "too small: it has 100 B in all");
  EXPECT_THAT(why.changes, ElementsAre("job 1 ends"));
}

TEST_F(ExplainTest, ALimitOfItsTenantIsLiftedByItsOwnJobsOnly) {
  state.SetPolicy({.tenants = {{"a", {.most = 1}}}});
  const auto submit = [&](const std::string& tenant) {
    const JobId id(++last_job);
    Send(JobSubmitted{.tenant = tenant, .id = id, .bytes = 10});
    return id;
  };
  submit("b");
  const JobId own = submit("a.child");
  const Explanation why = Of(submit("a"));
  EXPECT_THAT(why.waits_for, HasSubstr("tenant 'a' may use 1"));
  EXPECT_THAT(why.changes,
              ElementsAre(absl::StrCat("job ", own.value(), " ends"),
                          "a higher `most` of tenant 'a' in the server's "
                          "--tenants"));
}

TEST_F(ExplainTest, ALimitOfItsQueueIsLiftedByItsOwnJobsOnly) {
  AddReadyDevice("cpu:1", 100);
  state.SetPolicy({.queues = {{.name = "lim", .most = 1}}});
  Submit(10);
  const auto submit = [&] {
    const JobId id(++last_job);
    Send(JobSubmitted{.queue_name = "lim", .id = id, .bytes = 10});
    return id;
  };
  const JobId own = submit();
  EXPECT_THAT(Of(submit()).changes,
              ElementsAre(absl::StrCat("job ", own.value(), " ends"),
                          "a higher `most` of queue 'lim' in the server's "
                          "--queues"));
}

TEST_F(ExplainTest, AtALimitNobodyGivesWay) {
  state.SetPolicy({.queues = {{.name = "low", .rank = 0},
                              {.name = "lim",
                               .order = Order::kLeastAttained,
                               .rank = 1,
                               .preempts = true,
                               .most = 1}}});
  AddReadyDevice("cpu:1", 100);
  const auto submit = [&](const std::string& queue, int priority) {
    const JobId id(++last_job);
    Send(JobSubmitted{
        .queue_name = queue, .id = id, .priority = priority, .bytes = 100});
    return id;
  };
  const JobId other = submit("low", 0);
  const JobId own = submit("lim", 0);
  const JobId waiting = submit("lim", 5);
  now += absl::Hours(2);
  Send(TimerFired{});
  const Explanation why = Of(waiting);
  ASSERT_EQ(why.running.size(), 2u);
  EXPECT_EQ(why.running[0].job, other);
  EXPECT_FALSE(why.running[0].gives_way);
  EXPECT_EQ(why.running[0].reason,
            "its end would not help: queue 'lim' is at its limit");
  EXPECT_EQ(why.running[1].job, own);
  EXPECT_FALSE(why.running[1].gives_way);
  EXPECT_EQ(why.running[1].reason,
            "keeps its device until it ends: queue 'lim' is at its limit");
  EXPECT_FALSE(job(other).gives_way_to || job(own).gives_way_to);
}

TEST_F(ExplainTest, WhatIsBorrowedGivesWayToAGuarantee) {
  state.SetPolicy(
      {.min_run = absl::Hours(1), .tenants = {{"a", {.guaranteed = 1}}}});
  const JobId borrower = Running();
  now += absl::Minutes(30);
  const JobId id(++last_job);
  Send(JobSubmitted{.tenant = "a", .id = id, .bytes = 100});
  ASSERT_EQ(Of(id).running.size(), 1u);
  EXPECT_EQ(Of(id).running[0].reason, "is in its minimum run for another 30m");
  now += absl::Minutes(31);
  const auto running = Of(id).running[0];
  EXPECT_TRUE(running.gives_way);
  EXPECT_EQ(running.reason, "is beyond what tenant '' is guaranteed");
  Send(TimerFired{});
  EXPECT_EQ(job(borrower).gives_way_to, id);
}

}  // namespace
}  // namespace gpupool::scheduler
