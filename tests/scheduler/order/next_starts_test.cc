// Compares the starts of one decision with those that a fresh look at the pool
// chooses each time.
#include <gmock/gmock.h>

#include <random>

#include "scheduler/order/queue_policy.h"
#include "scheduler/state/state_editor.h"
#include "tests/scheduler/scheduler_fixture.h"

namespace gpupool::scheduler {
namespace {

class NextStartsTest : public SchedulerTest {
 protected:
  // Queues of all kinds. Jobs are started by Start, not by Step.
  void SetUpQueues(std::optional<uint32_t> most) {
    QueuePolicy policy;
    policy.queues = {
        {.name = "default", .order = Order::kPriority},
        {.name = "las",
         .order = Order::kLeastAttained,
         .rank = 2,
         .preempts = true},
        {.name = "fifo", .order = Order::kFirstCome, .rank = 2, .most = most},
        {.name = "fair", .order = Order::kFairShare},
        {.name = "easy", .order = Order::kBackfill, .rank = 1},
        {.name = "part",
         .order = Order::kBackfill,
         .rank = 3,
         .devices = {"cuda:0", "cuda:1", "cuda:5"}}};
    state.SetPolicy(policy);
    AddNodes(3, 4);
    Send(StartsHeld{.held = true});
  }

  void SubmitOne() {
    const auto& queues = state.policy().queues;
    JobSubmitted event{.id = JobId(++last_job)};
    event.tenant = absl::StrCat("tenant", random() % 3);
    const uint32_t sizes[] = {1, 1, 1, 1, 2, 3, 4, 8};
    event.device_count = sizes[random() % 8];
    event.bytes = 10 * (1 + random() % 10);
    if (random() % 8 != 0) {
      event.expected_run = absl::Seconds(1 << random() % 12);
    }
    event.queue_name = queues[random() % queues.size()].name;
    if (random() % 20 == 0) {
      event.array = JobId(1000000 + last_job % 2);
      event.max_at_once = 2;
    }
    Send(event);
  }

  // Does what a decision does with the choice.
  void Start(const NextStart& next) {
    StateEditor edit(state);
    for (JobId id : next.passed) {
      Job& passed = *edit.FindJob(id);
      if (++passed.passes < kMaxPasses) continue;
      ++held_;
      passed.held_devices = DevicesToHold(state, NeedOf(state, passed));
    }
    Job& job = *edit.FindJob(next.job);
    ++job.attempt;
    job.passes = 0;
    Ranks ranks;
    for (DeviceId device : next.devices) ranks.push_back({device});
    edit.PlaceJob(job, std::move(ranks));
    edit.SetJobState(job, JobState::kStarting);
    running_.push_back(job.id);
  }

  void EndOne() {
    if (running_.empty()) return;
    std::swap(running_[random() % running_.size()], running_.back());
    const JobId id = running_.back();
    running_.pop_back();
    for (uint32_t rank = 0; rank < job(id).device_count; ++rank) {
      EndRank(id, rank, Outcome::kSucceeded);
    }
  }

  // Returns the number of starts.
  int DecideOnce() {
    const absl::btree_set<DeviceId> held = {DeviceId(random() % 12)};
    NextStarts kept(state, held, now);
    for (int starts = 0;; ++starts) {
      const std::optional<NextStart> next = kept.Choose();
      const std::optional<NextStart> fresh =
          NextStarts(state, held, now).Choose();
      EXPECT_EQ(next.has_value(), fresh.has_value()) << starts;
      if (!next || !fresh) return starts;
      EXPECT_EQ(next->job, fresh->job) << starts;
      EXPECT_EQ(next->devices, fresh->devices) << starts;
      EXPECT_EQ(next->passed, fresh->passed) << starts;
      if (HasFailure()) return starts;
      Start(*next);
    }
  }

  std::mt19937 random{5};
  std::vector<JobId> running_;
  int held_ = 0;  // how often devices were held for a job
};

TEST_F(NextStartsTest, WhatIsKeptBetweenStartsChangesNoChoice) {
  SetUpQueues(6);
  int several = 0;
  for (int round = 0; round < 1500 && !HasFailure(); ++round) {
    now += absl::Seconds(random() % 100);
    for (uint32_t i = 0; i < 2 + random() % 3; ++i) SubmitOne();
    for (uint32_t i = 0; i < random() % 4; ++i) EndOne();
    several += DecideOnce() > 1;
  }
  EXPECT_GT(several, 100);
  EXPECT_GT(held_, 0);
}

}  // namespace
}  // namespace gpupool::scheduler
