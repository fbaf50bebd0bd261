#include "scheduler/state/queues.h"

#include <gmock/gmock.h>

#include "scheduler/explain/explain.h"
#include "scheduler/explain/waiting_reason.h"
#include "scheduler/order/queue_policy.h"
#include "tests/scheduler/scheduler_fixture.h"

namespace gpupool::scheduler {
namespace {

using ::testing::HasSubstr;

class QueuesTest : public SchedulerTest {
 protected:
  void Use(std::vector<Queue> queues) {
    state.SetPolicy({.queues = std::move(queues)});
  }
  JobId SubmitTo(const std::string& queue, uint32_t devices = 1,
                 int priority = 0) {
    const JobId id(++last_job);
    Send(JobSubmitted{.queue_name = queue,
                      .id = id,
                      .priority = priority,
                      .bytes = 100,
                      .device_count = devices});
    return id;
  }
  // Stops the job, as its worker does when told to.
  void Stop(JobId id) {
    const Ranks ranks = job(id).ranks;
    for (const Rank& rank : ranks) {
      Send(AttemptEnded{
          rank.device, {id, job(id).attempt}, Outcome::kStopped, ""});
    }
  }
  bool Lives(JobId id) const { return IsLive(job(id).state); }
};

TEST_F(QueuesTest, WithoutAnyThereIsTheDefault) {
  const Queues queues({.order = Order::kLeastAttained, .hysteresis = 3});
  ASSERT_EQ(queues.size(), 1u);
  EXPECT_EQ(queues.Names(), "default");
  EXPECT_EQ(queues.at(0).queue.order, Order::kLeastAttained);
  EXPECT_EQ(queues.at(0).queue.hysteresis, 3);
  EXPECT_TRUE(queues.preempt());
  EXPECT_EQ(queues.NumberOf("other"), 0u);
}

TEST_F(QueuesTest, HigherRanksComeFirstAndOneMayBeTheDefault) {
  const Queues queues({.queues = {{.name = "a", .rank = -1},
                                  {.name = "default", .rank = 2},
                                  {.name = "b", .rank = 5}}});
  EXPECT_EQ(queues.Names(), "b, default and a");
  EXPECT_EQ(queues.NumberOf(""), 1u);
  EXPECT_EQ(queues.NumberOf("gone"), 1u);
  EXPECT_TRUE(queues.IsAbove(0, 2));
  EXPECT_FALSE(queues.TakesFrom(0, 2));
  EXPECT_FALSE(queues.preempt());
}

TEST_F(QueuesTest, RankGoesBeforePriority) {
  Use({{.name = "high", .rank = 1}});
  AddNodes(1, 1);
  const JobId first = SubmitTo("");
  Begin(first);
  const JobId low = SubmitTo("default", 1, 1000);
  const JobId high = SubmitTo("high", 1, -1000);
  End(first, Outcome::kSucceeded);
  EXPECT_TRUE(Lives(high));
  EXPECT_FALSE(Lives(low));
}

TEST_F(QueuesTest, OfOneRankTheOneWithFewestDevicesGoesFirst) {
  Use({{.name = "a"}, {.name = "b"}});
  AddNodes(1, 4);
  const JobId blocks = SubmitTo("", 4);
  Begin(blocks);
  std::vector<JobId> jobs;
  for (const char* queue : {"a", "a", "a", "a", "b", "b", "b"}) {
    jobs.push_back(SubmitTo(queue));
  }
  for (size_t rank = 0; rank < 4; ++rank) {
    EndRank(blocks, rank, Outcome::kSucceeded);
  }
  EXPECT_TRUE(Lives(jobs[0]) && Lives(jobs[1]));
  EXPECT_TRUE(Lives(jobs[4]) && Lives(jobs[5]));
}

TEST_F(QueuesTest, OnlyAQueueThatPreemptsMakesOthersGiveWay) {
  for (const bool preempts : {false, true}) {
    SCOPED_TRACE(preempts);
    state = State();
    Use({{.name = "high", .rank = 1, .preempts = preempts}});
    AddNodes(1, 1);
    const JobId low = SubmitTo("", 1, 1000);
    Begin(low);
    const JobId high = SubmitTo("high");
    EXPECT_EQ(job(low).stop_sent == StopReason::kPreempted, preempts);
    if (!preempts) continue;
    EXPECT_EQ(job(low).gives_way_to, high);
    Stop(low);
    EXPECT_TRUE(Lives(high));
    Begin(high);
    const JobId more = SubmitTo("high", 1, 5);  // not from its own jobs
    EXPECT_FALSE(job(high).stop_sent.has_value());
    EXPECT_FALSE(Lives(more));
  }
}

TEST_F(QueuesTest, ForSeveralDevicesSeveralGiveWay) {
  Use({{.name = "high", .rank = 1, .preempts = true}});
  AddNodes(2, 2);
  std::vector<JobId> low;
  for (int i = 0; i < 4; ++i) {
    low.push_back(SubmitTo(""));
    Begin(low.back());
  }
  const JobId high = SubmitTo("high", 2);
  std::vector<JobId> stopping;
  for (JobId id : low) {
    if (job(id).stop_sent) stopping.push_back(id);
  }
  ASSERT_EQ(stopping.size(), 2u);
  for (JobId id : stopping) Stop(id);
  EXPECT_TRUE(Lives(high));
}

TEST_F(QueuesTest, TheMinimumRunIsThatOfTheJobsQueue) {
  Use({{.name = "high", .rank = 1, .preempts = true},
       {.name = "default", .min_run = absl::Minutes(5)}});
  AddNodes(1, 1);
  const JobId low = SubmitTo("");
  Begin(low);
  SubmitTo("high");
  EXPECT_FALSE(job(low).stop_sent.has_value());
  now += absl::Minutes(5);
  Send(TimerFired{});
  EXPECT_TRUE(job(low).stop_sent.has_value());
}

TEST_F(QueuesTest, EachHasItsOwnOrder) {
  Use({{.name = "short",
        .order = Order::kShortestRemaining,
        .devices = {"cuda:0"}},
       {.name = "default", .devices = {"cuda:1"}}});
  AddNodes(1, 2);
  const auto submit = [&](const char* queue, absl::Duration run) {
    const JobId id(++last_job);
    Send(JobSubmitted{
        .queue_name = queue, .id = id, .bytes = 100, .expected_run = run});
    return id;
  };
  const JobId long_there = submit("short", absl::Hours(9));
  const JobId long_here = submit("", absl::Hours(9));
  Begin(long_there);
  Begin(long_here);
  submit("short", absl::Minutes(1));
  submit("", absl::Minutes(1));
  EXPECT_EQ(job(long_there).stop_sent, StopReason::kPreempted);
  EXPECT_FALSE(job(long_here).stop_sent.has_value());
}

TEST_F(QueuesTest, DevicesOfAQueueAreRespected) {
  Use({{.name = "few", .devices = {"cuda:1", "cuda:2"}}, {.name = "default"}});
  AddNodes(2, 2);
  const JobId one = SubmitTo("few");
  const JobId two = SubmitTo("few");
  const JobId three = SubmitTo("few");
  EXPECT_THAT(std::vector<DeviceId>({DeviceOf(one), DeviceOf(two)}),
              ::testing::UnorderedElementsAre(DeviceId(1), DeviceId(2)));
  EXPECT_FALSE(Lives(three));
  EXPECT_TRUE(Lives(SubmitTo("")));
}

TEST_F(QueuesTest, AGangMayGetPartsOfMachinesWhereThatIsAllItsQueueHas) {
  Use({{.name = "few", .devices = {"cuda:1", "cuda:2"}}});
  AddNodes(2, 2);
  const JobId gang = SubmitTo("few", 2);
  ASSERT_TRUE(Lives(gang));
  EXPECT_EQ(job(gang).ranks.at(0).device, DeviceId(1));
  EXPECT_EQ(job(gang).ranks.at(1).device, DeviceId(2));
}

TEST_F(QueuesTest, OthersGiveWayOnlyOnDevicesOfTheQueue) {
  Use({{.name = "few", .rank = 1, .preempts = true, .devices = {"cuda:1"}}});
  AddNodes(1, 2);
  const JobId a = SubmitTo("");
  const JobId b = SubmitTo("");
  Begin(a);
  Begin(b);
  SubmitTo("few");
  const JobId there = DeviceOf(a) == DeviceId(1) ? a : b;
  EXPECT_TRUE(job(there).stop_sent.has_value());
  EXPECT_FALSE(job(there == a ? b : a).stop_sent.has_value());
}

TEST_F(QueuesTest, ItsJobsHoldNoMoreDevicesThanTheyMay) {
  Use({{.name = "few", .most = 2}});
  AddNodes(1, 4);
  const JobId gang = SubmitTo("few", 2);
  const JobId more = SubmitTo("few");
  ASSERT_TRUE(Lives(gang));
  EXPECT_FALSE(Lives(more));
  EXPECT_THAT(WaitingReason(state, job(more)),
              HasSubstr("jobs in queue 'few' may use 2 devices at once and use "
                        "2; it needs 1; it is next in queue 'few'"));
  EXPECT_TRUE(Lives(SubmitTo("")));
  Begin(gang);
  EndRank(gang, 0, Outcome::kSucceeded);
  EndRank(gang, 1, Outcome::kSucceeded);
  EXPECT_TRUE(Lives(more));
}

TEST_F(QueuesTest, AHigherQueueIsNotPassedForEver) {
  Use({{.name = "high", .order = Order::kLeastAttained, .rank = 1}});
  AddNodes(1, 2);
  std::vector<JobId> small = {SubmitTo(""), SubmitTo("")};
  for (JobId id : small) Begin(id);
  const JobId gang = SubmitTo("high", 2);
  // One of two devices is always in use.
  uint32_t passed = 0;
  for (; passed < 3 * kMaxPasses && !Lives(gang); ++passed) {
    small.push_back(SubmitTo(""));
    End(small.front(), Outcome::kSucceeded);
    small.erase(small.begin());
    for (JobId id : small) {
      if (job(id).state == JobState::kStarting) Begin(id);
    }
    if (!Lives(small.front())) break;
  }
  for (JobId id : small) {
    if (Lives(id) && id != gang) End(id, Outcome::kSucceeded);
  }
  EXPECT_TRUE(Lives(gang)) << passed;
  EXPECT_LE(passed, kMaxPasses + 2);
}

TEST_F(QueuesTest, LowerOnesKeepOffAReservation) {
  Use({{.name = "high", .order = Order::kBackfill, .rank = 1}});
  AddNodes(1, 2);
  const auto submit = [&](const char* queue, uint32_t devices) {
    const JobId id(++last_job);
    Send(JobSubmitted{.queue_name = queue,
                      .id = id,
                      .bytes = 100,
                      .device_count = devices,
                      .expected_run = absl::Hours(1)});
    return id;
  };
  const JobId first = submit("high", 1);
  Begin(first);
  const JobId gang = submit("high", 2);
  const JobId low = submit("", 1);
  EXPECT_FALSE(Lives(low));
  End(first, Outcome::kSucceeded);
  EXPECT_TRUE(Lives(gang));
}

TEST_F(QueuesTest, AGuaranteeDoesNotReachUp) {
  state.SetPolicy({.tenants = {{"a", {.guaranteed = 1}}},
                   .queues = {{.name = "high", .rank = 1}}});
  AddNodes(1, 1);
  const JobId high = SubmitTo("high");
  Begin(high);
  const JobId id(++last_job);
  Send(JobSubmitted{.tenant = "a", .id = id, .bytes = 100});
  EXPECT_FALSE(job(high).stop_sent.has_value());
  const JobId same(++last_job);
  Send(JobSubmitted{
      .tenant = "a", .queue_name = "high", .id = same, .bytes = 100});
  EXPECT_TRUE(job(high).stop_sent.has_value());
}

TEST_F(QueuesTest, AJobOfAQueueThatIsGoneWaitsInTheDefault) {
  Use({{.name = "high", .rank = 1}});
  AddNodes(1, 1);
  Begin(SubmitTo(""));
  const JobId lost = SubmitTo("gone");
  EXPECT_EQ(state.QueueOf(job(lost)).name, "default");
  EXPECT_THAT(WaitingReason(state, job(lost)),
              HasSubstr("it is next in queue 'default', where it is since "
                        "'gone' is no longer configured"));
}

TEST_F(QueuesTest, ThatIsSaidAlsoWhereOnlyTheDefaultIsLeft) {
  AddNodes(1, 1);
  Begin(SubmitTo(""));
  EXPECT_THAT(WaitingReason(state, job(SubmitTo("gone"))),
              HasSubstr("it is next in queue 'default', where it is since "
                        "'gone' is no longer configured"));
}

TEST_F(QueuesTest, CountsWhatWaitsAndRuns) {
  Use({{.name = "high", .rank = 1}});
  AddNodes(1, 2);
  const JobId gang = SubmitTo("high", 2);
  SubmitTo("high");
  SubmitTo("");
  const Queues& queues = state.queues();
  EXPECT_EQ(queues.at(0).running_jobs, 1u);
  EXPECT_EQ(queues.at(0).held_devices, 2u);
  EXPECT_EQ(queues.at(0).waiting_jobs, 1u);
  EXPECT_EQ(queues.at(1).waiting_jobs, 1u);
  Send(JobCancelRequested{gang});
  Stop(gang);
  EXPECT_EQ(queues.at(0).running_jobs, 1u);
  EXPECT_EQ(queues.at(0).held_devices, 1u);
  EXPECT_EQ(queues.at(1).running_jobs, 1u);
}

TEST_F(QueuesTest, WhyTellsWhoGivesWayToWhom) {
  Use({{.name = "high", .rank = 1}, {.name = "low", .rank = -1}});
  AddNodes(1, 1);
  const JobId low = SubmitTo("low");
  Begin(low);
  const JobId high = SubmitTo("high");
  const Explanation explained = Explain(state, job(high), now);
  ASSERT_EQ(explained.running.size(), 1u);
  EXPECT_EQ(explained.running[0].reason,
            "keeps its device until it ends: it is in queue 'low', from which "
            "queue 'high' takes nothing");
}

}  // namespace
}  // namespace gpupool::scheduler
