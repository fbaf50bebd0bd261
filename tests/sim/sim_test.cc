// Simulates the scheduler with failures. A failing run prints its seed. Run it
// again with GPUPOOL_SIM_SEED=<seed> GPUPOOL_SIM_SEEDS=1.
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>

#include "scheduler/state/state_editor.h"
#include "tests/sim/world.h"

namespace gpupool::scheduler {
namespace {

void Print(uint64_t seed, const WorldReport& report) {
  std::cout << "seed=" << seed << " events=" << report.events
            << " jobs=" << report.jobs << " succeeded=" << report.succeeded
            << " failed=" << report.failed << " cancelled=" << report.cancelled
            << " lost_workers=" << report.lost_workers
            << " restarts=" << report.restarts
            << " lost_turns=" << report.lost_turns
            << " clock_jumps=" << report.clock_jumps
            << " taken_back=" << report.taken_back << " stale=" << report.stale
            << " versions_ready=" << report.versions_ready
            << " rehearsals=" << report.rehearsals
            << " given_up=" << report.given_up
            << " tried_jobs=" << report.tried_jobs
            << " poisonous_jobs=" << report.poisonous_jobs
            << " gangs=" << report.gangs << " pinned=" << report.pinned
            << " exclusive=" << report.exclusive
            << " gangs_succeeded=" << report.gangs_succeeded
            << " preemptions=" << report.preemptions
            << " blamed=" << report.blamed << " held=" << report.held
            << " yielded=" << report.yielded << " grown=" << report.grown
            << " shrunk=" << report.shrunk << " requeued=" << report.requeued
            << " after_others=" << report.after_others
            << " drained=" << report.drained << " arrays=" << report.arrays
            << " held_back=" << report.held_back
            << " at_limits=" << report.at_limits
            << " reservations=" << report.reservations
            << " sent_away=" << report.sent_away << "\n";
}

uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}
uint64_t FirstSeed() { return FromEnvironment("GPUPOOL_SIM_SEED", 1); }
uint64_t Seeds() { return FromEnvironment("GPUPOOL_SIM_SEEDS", 8); }

QueuePolicy PolicyOf(Order order) {
  return {.order = order,
          .min_run = absl::Milliseconds(100),
          .tenants = {{"team0", {.weight = 3}},
                      {"team1", {.guaranteed = 1}},
                      {"team2.a", {.most = 3}}},
          .usage_half_life = absl::Minutes(1),
          .restart_cost = absl::Milliseconds(50),
          .yields_to_serving = true,
          .grow_after = absl::Milliseconds(200)};
}

class SimTest : public ::testing::TestWithParam<Order> {};

// Together with the other orders, these are more than a million events.
TEST_P(SimTest, KeepsAllRulesUnderTroubleAndEveryJobEnds) {
  WorldReport sum;
  for (uint64_t seed = FirstSeed(); seed < FirstSeed() + Seeds(); ++seed) {
    const WorldReport report =
        World({.seed = seed, .policy = PolicyOf(GetParam())}).Run();
    Print(seed, report);
    ASSERT_EQ(report.failure, "");
    EXPECT_GT(report.succeeded, 0);
    EXPECT_GT(report.restarts, 0);
    EXPECT_GT(report.lost_turns, 0);
    EXPECT_GT(report.clock_jumps, 0);
    EXPECT_GT(report.lost_workers, 0);
    EXPECT_GT(report.gangs_succeeded, 0);
    EXPECT_GT(report.preemptions, 0);
    sum.yielded += report.yielded;
    sum.drained += report.drained;
    EXPECT_GT(report.saved_behind, 0);
    sum.full_disks += report.full_disks;
    sum.killed_saving += report.killed_saving;
    EXPECT_GT(report.held, 0);
    EXPECT_GT(report.tried_jobs, 0);
    EXPECT_GT(report.poisonous_jobs, 0);
    EXPECT_GT(report.requeued, 0);
    EXPECT_GT(report.after_others, 0);
    EXPECT_GT(report.at_limits, 0);
    EXPECT_GT(report.arrays, 0);
    EXPECT_GT(report.held_back, 0);
    EXPECT_GT(report.reservations, 0);
    sum.sent_away += report.sent_away;
    sum.events += report.events;
  }
  EXPECT_GT(sum.yielded, 0);
  EXPECT_GT(sum.drained, 0);
  EXPECT_GT(sum.full_disks, 0);
  EXPECT_GT(sum.killed_saving, 0);
  EXPECT_GT(sum.sent_away, 0);
  EXPECT_GE(sum.events, 21000 * static_cast<int>(Seeds()));
}

INSTANTIATE_TEST_SUITE_P(Orders, SimTest,
                         ::testing::Values(Order::kFirstCome, Order::kPriority,
                                           Order::kBackfill, Order::kFairShare,
                                           Order::kLeastAttained,
                                           Order::kShortestRemaining),
                         [](const auto& order) {
                           return std::string(ToString(order.param));
                         });

// Queues with different ranks that preempt each other, two of the same rank,
// lists of devices and a limit, each with a different order; and jobs of a
// queue that was removed.
TEST(SimWorldTest, QueuesOfSeveralOrdersKeepAllRules) {
  QueuePolicy policy = PolicyOf(Order::kFirstCome);
  policy.queues = {{.name = "urgent",
                    .order = Order::kPriority,
                    .min_run = absl::Milliseconds(100),
                    .rank = 5,
                    .preempts = true},
                   {.name = "short",
                    .order = Order::kLeastAttained,
                    .min_run = absl::Milliseconds(100),
                    .rank = 1},
                   {.name = "planned",
                    .order = Order::kBackfill,
                    .min_run = absl::Milliseconds(100),
                    .rank = 1,
                    .preempts = true,
                    .devices = {"cpu:0", "cpu:2"}},
                   {.name = "few",
                    .order = Order::kShortestRemaining,
                    .rank = -1,
                    .most = 2},
                   {.name = "shared", .order = Order::kFairShare, .rank = -1}};
  WorldReport sum;
  for (uint64_t seed = FirstSeed(); seed < FirstSeed() + Seeds(); ++seed) {
    const WorldReport report = World({.seed = seed, .policy = policy}).Run();
    Print(seed, report);
    ASSERT_EQ(report.failure, "");
    EXPECT_GT(report.succeeded, 0);
    EXPECT_GT(report.restarts, 0);
    sum.outranked += report.outranked;
    sum.gangs_succeeded += report.gangs_succeeded;
  }
  EXPECT_GT(sum.outranked, 0);
  EXPECT_GT(sum.gangs_succeeded, 0);
}

// Jobs and models that name a device, and exclusive jobs.
TEST_P(SimTest, PinnedAndExclusiveJobsKeepAllRules) {
  WorldReport sum;
  for (uint64_t seed = FirstSeed(); seed < FirstSeed() + 3; ++seed) {
    const WorldReport report = World({.seed = seed,
                                      .max_events = 8000,
                                      .pinned = 0.3,
                                      .exclusive = 0.3,
                                      .policy = PolicyOf(GetParam())})
                                   .Run();
    Print(seed, report);
    ASSERT_EQ(report.failure, "");
    EXPECT_GT(report.restarts, 0);
    EXPECT_GT(report.lost_workers, 0);
    sum.pinned += report.pinned;
    sum.exclusive += report.exclusive;
    sum.versions_ready += report.versions_ready;
    sum.rehearsals += report.rehearsals;
    sum.given_up += report.given_up;
  }
  EXPECT_GT(sum.pinned, 20);
  EXPECT_GT(sum.exclusive, 20);
  EXPECT_GT(sum.versions_ready, 20);
  EXPECT_GT(sum.rehearsals, 0);
  EXPECT_GT(sum.given_up, 0);
}

TEST(SimWorldTest, TheSameSeedGivesTheSameRun) {
  const WorldReport first = World({.seed = 7, .max_events = 5000}).Run();
  const WorldReport second = World({.seed = 7, .max_events = 5000}).Run();
  EXPECT_EQ(first.events, second.events);
  EXPECT_EQ(first.succeeded, second.succeeded);
  EXPECT_EQ(first.stale, second.stale);
}

TEST(SimWorldTest, OneCrowdedDeviceStarvesNobody) {
  const WorldReport report =
      World({.seed = 3, .devices = 1, .max_events = 10000}).Run();
  Print(3, report);
  EXPECT_EQ(report.failure, "");
}

TEST(SimWorldTest, CrowdsOfGangsDoNotWaitForEachOtherForEver) {
  for (uint64_t seed : {11, 12}) {
    const WorldReport report =
        World({.seed = seed, .devices = 5, .max_events = 10000, .gang = 0.9})
            .Run();
    Print(seed, report);
    EXPECT_EQ(report.failure, "");
    EXPECT_GT(report.gangs_succeeded, 0);
  }
}

TEST(SimWorldTest, ElasticJobsGrowAndShrink) {
  for (Order order : {Order::kFirstCome, Order::kBackfill, Order::kFairShare,
                      Order::kLeastAttained}) {
    QueuePolicy policy = PolicyOf(order);
    policy.tenants.clear();  // some jobs need more than team2.a may have
    WorldReport sum;
    for (uint64_t seed = FirstSeed(); seed < FirstSeed() + 4; ++seed) {
      const WorldReport report =
          World({.seed = seed,
                 .devices = 5,
                 .max_events = 10000,
                 .between_jobs = absl::Milliseconds(1500),
                 .gang = 0.1,
                 .elastic = 0.8,
                 .policy = policy})
              .Run();
      Print(seed, report);
      ASSERT_EQ(report.failure, "");
      sum.grown += report.grown;
      sum.shrunk += report.shrunk;
    }
    EXPECT_GT(sum.grown, 0) << ToString(order);
    EXPECT_GT(sum.shrunk, 0) << ToString(order);
  }
}

// The canaries: if the checks cannot see a broken state, or a server that
// breaks its promise, the runs above prove nothing.
TEST(SimWorldTest, CanaryABrokenStateIsSeenAtOnce) {
  WorldOptions options{.seed = 5, .max_events = 2000};
  options.sabotage = [](State& state, int events) {
    if (events < 1000) return;
    StateEditor edit(state);
    for (const auto& [id, job] : state.jobs()) {
      if (!IsLive(job.state)) continue;
      // The same job again, on another device.
      const DeviceId other((job.ranks[0].device.value() + 1) % 3);
      edit.PlaceJob(*edit.FindJob(id), {{other}});
      return;
    }
  };
  const WorldReport report = World(options).Run();
  EXPECT_NE(report.failure, "");
  std::cout << "the canary says: " << report.failure << "\n";
}

TEST(SimWorldTest, CanaryAReservationThatIsNotEnforcedIsSeen) {
  WorldOptions options{.seed = 5, .max_events = 2000};
  options.sabotage = [](State& state, int events) {
    if (events < 1000 || state.reservations().Find(ReservationId(99999))) {
      return;
    }
    for (const auto& [id, device] : state.devices()) {
      if (device.jobs.empty() || !state.reservations().Of(id).empty()) continue;
      StateEditor(state).AddReservation(
          {.id = ReservationId(99999),
           .name = "nobody's",
           .tenant = "nobody",
           .devices = {id},
           .start = state.now(),
           .end = state.now() + absl::Seconds(1)});
      return;
    }
  };
  const WorldReport report = World(options).Run();
  EXPECT_NE(report.failure, "");
  std::cout << "the canary says: " << report.failure << "\n";
}

// Returns how many of ten runs found the bug.
int RunsThatFind(WorldOptions options) {
  int found = 0;
  options.slow_commit = 0.2;
  for (options.seed = 1; options.seed <= 10; ++options.seed) {
    const WorldReport report = World(options).Run();
    if (report.failure.empty()) continue;
    if (++found == 1) {
      std::cout << "the canary says: " << report.failure << "\n";
    }
  }
  return found;
}

TEST(SimWorldTest, CanaryAnAnswerBeforeTheCommitIsFound) {
  EXPECT_GT(RunsThatFind({.answers_too_early = true}), 0);
}

TEST(SimWorldTest, CanaryAnActionBeforeTheCommitIsFound) {
  EXPECT_GT(RunsThatFind({.acts_too_early = true}), 0);
}

}  // namespace
}  // namespace gpupool::scheduler
