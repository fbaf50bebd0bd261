#include "scheduler/explain/forecast.h"

#include <gmock/gmock.h>

#include <random>

#include "tests/scheduler/scheduler_fixture.h"

namespace gpupool::scheduler {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ForecastTest : public SchedulerTest {
 protected:
  JobSubmitted NewJob(uint64_t bytes, std::optional<absl::Duration> run) {
    return {.id = JobId(++last_job), .bytes = bytes, .expected_run = run};
  }
  JobId SubmitFor(uint64_t bytes, std::optional<absl::Duration> run) {
    const JobSubmitted job = NewJob(bytes, run);
    Send(job);
    if (IsLive(this->job(job.id).state)) Begin(job.id);
    return job.id;
  }
  Forecast Of(JobId id, size_t most_events = kMostForecastEvents) {
    return ForecastStarts(state.Clone(), {id}, now, most_events)[id];
  }
};

TEST_F(ForecastTest, AJobForWhichThereIsRoomWouldStartAtOnce) {
  const DeviceId device = AddReadyDevice("cpu:0", 100);
  const Forecast forecast =
      ForecastSubmission(state.Clone(), NewJob(50, std::nullopt), now);
  EXPECT_EQ(forecast.start, now);
  EXPECT_THAT(forecast.devices, ElementsAre(device));
}

TEST_F(ForecastTest, AnUntriedJobStartsAsOneThatWasTried) {
  AddReadyDevice("cpu:0", 100);
  SubmitFor(80, absl::Seconds(100));
  JobSubmitted untried = NewJob(80, std::nullopt);
  untried.untried = true;
  Send(untried);
  EXPECT_EQ(Of(untried.id).start, now + absl::Seconds(100));
}

TEST_F(ForecastTest, ItStartsWhenTheOthersHaveEnded) {
  AddReadyDevice("cpu:0", 100);
  const DeviceId second = AddReadyDevice("cpu:1", 100);
  SubmitFor(80, absl::Seconds(100));
  SubmitFor(80, absl::Seconds(60));
  now += absl::Seconds(10);
  const JobId id = SubmitFor(80, std::nullopt);
  const Forecast forecast = Of(id);
  EXPECT_EQ(forecast.start, absl::UnixEpoch() + absl::Seconds(60));
  EXPECT_THAT(forecast.devices, ElementsAre(second));
  EXPECT_EQ(job(id).state, JobState::kQueued) << "nothing really happens";
}

TEST_F(ForecastTest, ThoseAheadRunFirst) {
  AddReadyDevice("cpu:0", 100);
  SubmitFor(80, absl::Seconds(10));
  SubmitFor(80, absl::Seconds(20));
  SubmitFor(80, absl::Seconds(30));
  const JobId id = SubmitFor(80, absl::Seconds(40));
  EXPECT_EQ(Of(id).start, now + absl::Seconds(60));
}

TEST_F(ForecastTest, WhoseEndNobodyKnowsIsNamed) {
  AddReadyDevice("cpu:0", 100);
  SubmitFor(80, std::nullopt);
  const JobId id = SubmitFor(80, absl::Seconds(1));
  const Forecast forecast = Of(id);
  EXPECT_FALSE(forecast.start);
  EXPECT_THAT(forecast.devices, IsEmpty());
  EXPECT_EQ(forecast.why_unknown, "nobody knows how long job 1 will run");
}

TEST_F(ForecastTest, AMaximumRunTimeIsAnEnd) {
  AddReadyDevice("cpu:0", 100);
  JobSubmitted limited = NewJob(80, std::nullopt);
  limited.max_run = absl::Seconds(30);
  Send(limited);
  Begin(limited.id);
  const JobId id = SubmitFor(80, absl::Seconds(1));
  EXPECT_EQ(Of(id).start, now + absl::Seconds(30));
}

TEST_F(ForecastTest, AHeldJobSaysSo) {
  AddReadyDevice("cpu:0", 100);
  JobSubmitted held = NewJob(10, std::nullopt);
  held.held = true;
  Send(held);
  EXPECT_THAT(Of(held.id).why_unknown, HasSubstr("gpupool release 1"));
}

TEST_F(ForecastTest, WhatItWaitsForIsWaitedFor) {
  AddReadyDevice("cpu:0", 100);
  const JobId first = SubmitFor(10, absl::Seconds(25));
  JobSubmitted after = NewJob(10, std::nullopt);
  after.after_ok = {first};
  Send(after);
  EXPECT_EQ(Of(after.id).start, now + absl::Seconds(25));
}

TEST_F(ForecastTest, BackingOffAndCoolingDownAreWaitedFor) {
  const DeviceId device = AddReadyDevice("cpu:0", 100);
  const JobId id = SubmitFor(10, absl::Seconds(25));
  Send(WorkerLost{device, "illegal address", DeviceFault::kLostContext});
  Send(WorkerReady{.device = device});
  EXPECT_EQ(Of(id).start, now + kFirstCooldown);
}

TEST_F(ForecastTest, GangsWaitForAllTheirDevices) {
  AddReadyDevice("cpu:0", 100);
  AddReadyDevice("cpu:1", 100);
  SubmitFor(80, absl::Seconds(100));
  SubmitFor(80, absl::Seconds(60));
  const JobId gang = SubmitGang(80, 2);
  const Forecast forecast = Of(gang);
  EXPECT_EQ(forecast.start, now + absl::Seconds(100));
  EXPECT_EQ(forecast.devices.size(), 2u);
}

TEST_F(ForecastTest, WhereOthersGiveWayItStartsAtOnce) {
  QueuePolicy policy;
  policy.order = Order::kPriority;
  policy.min_run = absl::Seconds(5);
  state.SetPolicy(policy);
  AddReadyDevice("cpu:0", 100);
  SubmitFor(80, absl::Seconds(1000));
  now += absl::Seconds(10);
  JobSubmitted urgent = NewJob(80, absl::Seconds(1));
  urgent.priority = 10;
  EXPECT_EQ(ForecastSubmission(state.Clone(), urgent, now).start, now);
}

TEST_F(ForecastTest, ADrainingServerStartsNothing) {
  AddReadyDevice("cpu:0", 100);
  Send(DrainRequested{});
  const JobId id = SubmitFor(10, std::nullopt);
  EXPECT_THAT(Of(id).why_unknown, HasSubstr("draining"));
}

TEST_F(ForecastTest, TheCostIsBounded) {
  AddReadyDevice("cpu:0", 100);
  for (int i = 0; i < 50; ++i) SubmitFor(80, absl::Seconds(1));
  const JobId id = SubmitFor(80, absl::Seconds(1));
  EXPECT_EQ(Of(id, 20).why_unknown, "it lies too far ahead");
}

// With exact run times, jobs start as predicted.
TEST_F(ForecastTest, TheForecastComesTrueWhenTimesAreRight) {
  constexpr uint64_t kSeed = 20261122;
  SCOPED_TRACE(kSeed);
  std::mt19937_64 random(kSeed);
  for (int i = 0; i < 4; ++i) AddReadyDevice(absl::StrCat("cpu:", i), 100);
  std::vector<JobId> all;
  for (int i = 0; i < 60; ++i) {
    all.push_back(
        SubmitFor(20 + random() % 80, absl::Seconds(1 + random() % 100)));
  }
  auto foreseen = ForecastStarts(state.Clone(), all, now);
  absl::btree_map<JobId, absl::Time> started;
  for (int second = 0; second < 10000 && !foreseen.empty(); ++second) {
    now = absl::UnixEpoch() + absl::Seconds(second);
    for (JobId id : all) {
      const Job* job = state.FindJob(id);
      if (job == nullptr || !IsLive(job->state)) continue;
      if (job->Attained(now) >= *job->expected_run)
        End(id, Outcome::kSucceeded);
      for (const auto& [other, waiting] : state.jobs()) {
        if (waiting.state != JobState::kStarting) continue;
        started.emplace(other, now);
        Begin(other);
      }
    }
  }
  for (const auto& [id, forecast] : foreseen) {
    ASSERT_TRUE(forecast.start) << id.value() << forecast.why_unknown;
    EXPECT_EQ(*forecast.start, started.at(id)) << id.value();
  }
  EXPECT_GT(foreseen.size(), 40u);
}

}  // namespace
}  // namespace gpupool::scheduler
