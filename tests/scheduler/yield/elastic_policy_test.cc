#include "scheduler/yield/elastic_policy.h"

#include <gmock/gmock.h>

#include "scheduler/explain/explain.h"
#include "tests/scheduler/scheduler_fixture.h"

namespace gpupool::scheduler {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ElasticTest : public SchedulerTest {
 protected:
  void SetUp() override { SetPolicy({}); }
  // Sets grow_after to 60 s. A restart costs a second.
  void SetPolicy(QueuePolicy policy) {
    policy.min_run = absl::Seconds(10);
    policy.restart_cost = absl::Seconds(1);
    state.SetPolicy(policy);
  }
  JobId SubmitElastic(std::vector<uint32_t> counts, int priority = 0,
                      std::string tenant = "") {
    const JobId id(++last_job);
    Send(JobSubmitted{.tenant = std::move(tenant),
                      .device_counts = counts,
                      .id = id,
                      .priority = priority,
                      .bytes = 80,
                      .device_count = counts.front()});
    return id;
  }
  void EndAll(JobId id, Outcome outcome) {
    for (size_t rank = job(id).ranks.size(); rank-- > 0;) {
      EndRank(id, rank, outcome);
    }
  }
  void Wait(absl::Duration time) {
    now += time;
    Send(TimerFired{});
  }
  uint32_t DevicesOf(JobId id) { return job(id).device_count; }
  bool IsRunning(JobId id) { return job(id).state == JobState::kRunning; }
  // Starts the job and lets its minimum run pass.
  void Run(JobId id) {
    Begin(id);
    Wait(absl::Seconds(10));
  }
};

TEST_F(ElasticTest, StartsWithTheMostOfItsNumbersThatAreFree) {
  AddNodes(1, 7);
  const JobId id = SubmitElastic({2, 4, 8});
  EXPECT_EQ(DevicesOf(id), 4u);
  EXPECT_EQ(job(id).ranks.size(), 4u);
  EXPECT_EQ(job(SubmitElastic({1, 2, 4})).ranks.size(), 2u);
}

TEST_F(ElasticTest, WaitsForItsLeast) {
  AddNodes(1, 2);
  const JobId fixed = SubmitGang(80, 1);
  const JobId id = SubmitElastic({2, 4});
  EXPECT_EQ(job(id).state, JobState::kQueued);
  EndAll(fixed, Outcome::kSucceeded);
  EXPECT_EQ(DevicesOf(id), 2u);
}

TEST_F(ElasticTest, LeavesOthersThatWaitWhatTheyNeed) {
  const DeviceId first = AddReadyDevice("cuda:0", 100);
  state.AddDevice("cuda:1", "cuda", 100);
  const JobId a = SubmitElastic({1, 2, 4});
  EXPECT_EQ(DevicesOf(a), 1u);
  const JobId b = SubmitElastic({1, 2, 4});
  const JobId c = SubmitElastic({1, 2, 4});
  EndAll(a, Outcome::kSucceeded);
  EXPECT_EQ(DeviceOf(b), first);
  Send(WorkerReady{.device = DeviceId(1)});
  EXPECT_EQ(DevicesOf(b), 1u);
  EXPECT_EQ(job(c).state, JobState::kStarting);
}

TEST_F(ElasticTest, ATenantsLimitIsOneOfTheJobsDevicesToo) {
  SetPolicy({.tenants = {{"a", {.most = 3}}}});
  AddNodes(1, 8);
  EXPECT_EQ(DevicesOf(SubmitElastic({1, 2, 4, 8}, 0, "a")), 2u);
}

TEST_F(ElasticTest, GrowsWhenDevicesStayIdle) {
  AddNodes(1, 4);
  const JobId other = SubmitGang(80, 2);
  const JobId id = SubmitElastic({1, 2, 4});
  ASSERT_EQ(DevicesOf(id), 2u);
  Run(id);
  EndAll(other, Outcome::kSucceeded);
  Wait(absl::Seconds(59));
  EXPECT_FALSE(job(id).stop_sent);
  Wait(absl::Seconds(1));
  EXPECT_EQ(job(id).stop_sent, StopReason::kResized);
  for (size_t rank : {0, 1}) EndRank(id, rank, Outcome::kStopped);
  EXPECT_EQ(job(id).state, JobState::kStarting);
  EXPECT_EQ(job(id).ranks.size(), 4u);
  EXPECT_EQ(job(id).failures, 0u);
}

TEST_F(ElasticTest, ATimerIsAskedForTheGrowth) {
  AddNodes(1, 2);
  const JobId other = SubmitGang(80, 1);
  const JobId id = SubmitElastic({1, 2});
  Begin(id);
  const auto timers = ActionsOf<SetTimer>(
      Send(AttemptEnded{DeviceOf(other), {other, 1}, Outcome::kSucceeded, ""}));
  ASSERT_EQ(timers.size(), 1u);
  now = timers[0].time;
  Send(TimerFired{});
  EXPECT_EQ(job(id).stop_sent, StopReason::kResized);
}

TEST_F(ElasticTest, DevicesThatAreNotIdleForLongAreLeftAlone) {
  AddNodes(1, 2);
  const JobId other = SubmitGang(80, 1);
  const JobId id = SubmitElastic({1, 2});
  Run(id);
  EndAll(other, Outcome::kSucceeded);
  Wait(absl::Seconds(50));
  const JobId passing = SubmitGang(80, 1);
  Wait(absl::Seconds(20));
  EndAll(passing, Outcome::kSucceeded);
  Wait(absl::Seconds(50));
  EXPECT_FALSE(job(id).stop_sent);
  Wait(absl::Seconds(10));
  EXPECT_TRUE(job(id).stop_sent);
}

TEST_F(ElasticTest, WhatARestartCostsMustBeSaved) {
  SetPolicy({});
  AddNodes(1, 2);
  const JobId other = SubmitGang(80, 1);
  const JobId id = SubmitElastic({1, 2});
  Run(id);
  EndAll(other, Outcome::kSucceeded);
  // Half of the time left is saved.
  Send(ProgressMade{DeviceOf(id), {id, 1}, 10, absl::Seconds(62)});
  Wait(absl::Seconds(61));
  EXPECT_FALSE(job(id).stop_sent);
  Send(ProgressMade{DeviceOf(id), {id, 1}, 11, absl::Seconds(100)});
  Wait(absl::Seconds(60));
  EXPECT_TRUE(job(id).stop_sent);
}

TEST_F(ElasticTest, TheDearerARestartTheLongerItWaits) {
  QueuePolicy policy;
  policy.restart_cost = absl::Seconds(60);
  AddNodes(1, 2);
  state.SetPolicy(policy);
  const JobId other = SubmitGang(80, 1);
  const JobId id = SubmitElastic({1, 2});
  Run(id);
  EndAll(other, Outcome::kSucceeded);
  Wait(absl::Seconds(599));
  EXPECT_FALSE(job(id).stop_sent);
  Wait(absl::Seconds(1));
  EXPECT_TRUE(job(id).stop_sent);
}

TEST_F(ElasticTest, OnlyOneGrowsAtATime) {
  AddNodes(1, 4);
  const JobId other = SubmitGang(80, 2);
  const JobId a = SubmitElastic({1, 3});
  const JobId b = SubmitElastic({1, 3});
  Run(a);
  Run(b);
  EndAll(other, Outcome::kSucceeded);
  Wait(absl::Minutes(2));
  EXPECT_NE(job(a).stop_sent.has_value(), job(b).stop_sent.has_value());
  const JobId grows = job(a).stop_sent ? a : b;
  EndAll(grows, Outcome::kStopped);
  EXPECT_EQ(DevicesOf(grows), 3u);
}

TEST_F(ElasticTest, ShrinksForAJobThatWaits) {
  AddNodes(1, 4);
  const JobId id = SubmitElastic({1, 2, 4});
  ASSERT_EQ(DevicesOf(id), 4u);
  Run(id);
  const JobId waits = SubmitGang(80, 1);
  EXPECT_EQ(job(id).stop_sent, StopReason::kResized);
  EXPECT_EQ(job(waits).reserved_devices.size(), 1u);
  const auto text = [&] {
    for (size_t rank : {0, 1, 2}) EndRank(id, rank, Outcome::kStopped);
    return EndRank(id, 3, Outcome::kStopped).job_changes.at(0).reason;
  }();
  EXPECT_THAT(text, HasSubstr("gives devices to job 2"));
  EXPECT_EQ(job(waits).state, JobState::kStarting);
  EXPECT_EQ(job(id).state, JobState::kStarting);
  EXPECT_EQ(DevicesOf(id), 2u) << "of 1, 2 and 4";
}

TEST_F(ElasticTest, ShrinkingIsCountedAsAPreemption) {
  AddNodes(1, 2);
  const JobId id = SubmitElastic({1, 2});
  Run(id);
  const JobId waits(++last_job);
  const StepResult told = Send(JobSubmitted{.id = waits, .bytes = 80});
  ASSERT_EQ(told.preemptions.size(), 1u);
  EXPECT_EQ(told.preemptions[0].reason, PreemptionReason::kResize);
  EXPECT_EQ(told.preemptions[0].gives_way_to, waits);
  EXPECT_EQ(told.preemptions[0].job, id);
}

TEST_F(ElasticTest, HasItsMinimumRunBeforeItShrinks) {
  AddNodes(1, 2);
  const JobId id = SubmitElastic({1, 2});
  Begin(id);
  SubmitGang(80, 1);
  EXPECT_FALSE(job(id).stop_sent);
  Wait(absl::Seconds(10));
  EXPECT_TRUE(job(id).stop_sent);
}

TEST_F(ElasticTest, KeepsItsDevicesFromAJobOfLowerPriority) {
  AddNodes(1, 2);
  const JobId id = SubmitElastic({1, 2}, 5);
  Run(id);
  SubmitGang(80, 1);
  Wait(absl::Minutes(10));
  EXPECT_FALSE(job(id).stop_sent);
}

TEST_F(ElasticTest, DoesNotStopWhereThatWouldNotDo) {
  AddNodes(1, 4);
  const JobId id = SubmitElastic({2, 4});
  Run(id);
  SubmitGang(80, 3);
  Wait(absl::Minutes(10));
  EXPECT_FALSE(job(id).stop_sent) << "it needs two of the four";
}

TEST_F(ElasticTest, SeveralGiveTogether) {
  AddNodes(1, 4);
  const JobId a = SubmitElastic({1, 2});
  const JobId b = SubmitElastic({1, 2});
  Run(a);
  Run(b);
  const JobId waits = SubmitGang(80, 2);
  EXPECT_TRUE(job(a).stop_sent);
  EXPECT_TRUE(job(b).stop_sent);
  EndAll(a, Outcome::kStopped);
  EndAll(b, Outcome::kStopped);
  EXPECT_EQ(job(waits).state, JobState::kStarting);
  EXPECT_EQ(DevicesOf(a), 1u);
  EXPECT_EQ(DevicesOf(b), 1u);
}

TEST_F(ElasticTest, ALostDeviceLeavesItTheRest) {
  AddNodes(1, 4);
  const JobId id = SubmitElastic({1, 2, 4});
  Run(id);
  Send(WorkerLost{DeviceId(3), "gone"});
  for (size_t rank : {0, 1, 2}) EndRank(id, rank, Outcome::kStopped);
  ASSERT_EQ(job(id).state, JobState::kBackingOff);
  EXPECT_EQ(DevicesOf(id), 1u) << "while it waits, what it needs";
  Wait(absl::Minutes(1));
  EXPECT_EQ(DevicesOf(id), 2u);
}

TEST_F(ElasticTest, AReservationThatCameToNothingIsGivenUp) {
  AddNodes(1, 2);
  const JobId id = SubmitElastic({1, 2});
  Run(id);
  const JobId waits = SubmitGang(80, 1);
  ASSERT_THAT(job(waits).reserved_devices, ElementsAre(DeviceId(1)));
  Send(WorkerLost{DeviceId(1), "gone"});
  EXPECT_THAT(job(waits).reserved_devices, IsEmpty());
  EndRank(id, 0, Outcome::kStopped);
  EXPECT_TRUE(job(waits).state == JobState::kStarting ||
              job(id).state == JobState::kStarting);
}

TEST_F(ElasticTest, PeopleAreToldWhoGivesDevicesBack) {
  AddNodes(1, 2);
  const JobId id = SubmitElastic({1, 2});
  Begin(id);
  const JobId waits = SubmitGang(80, 1);
  EXPECT_FALSE(Explain(state, job(waits), now).running.at(0).gives_way);
  now += absl::Seconds(10);
  const auto view = Explain(state, job(waits), now).running.at(0);
  EXPECT_TRUE(view.gives_way);
  EXPECT_EQ(view.reason, "runs on 2 devices and can do with 1");
  EXPECT_FALSE(IsRunning(waits));
}

}  // namespace
}  // namespace gpupool::scheduler
