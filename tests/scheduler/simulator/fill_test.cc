#include "scheduler/simulator/fill.h"

#include <gmock/gmock.h>

#include "scheduler/simulator/openb.h"

namespace gpupool::scheduler {
namespace {

using ::testing::HasSubstr;

absl::StatusOr<FillResult> Fill(PlacementRule rule, FillOptions options = {}) {
  options.rule = rule;
  return FillPool(GenerateNodes(20), GenerateNeeds(400, 3), options,
                  [](double) { return true; });
}

TEST(TuneTest, AsMuchIsAskedForAsWasToldAndInASeededOrder) {
  const std::vector<JobNeed> jobs = GenerateNeeds(100, 1);
  for (double ratio : {0.1, 1.0, 5.0}) {
    uint64_t asked = 0;
    for (const JobNeed& job : Tune(jobs, 40'000, ratio, 7)) {
      if (job.wanted_device != kHostKind) asked += job.devices * job.bytes;
    }
    EXPECT_LE(asked, ratio * 40'000);
    EXPECT_GT(asked, ratio * 40'000 - 8000) << "ratio " << ratio;
  }
  EXPECT_EQ(Tune(jobs, 40'000, 2, 7), Tune(jobs, 40'000, 2, 7));
  EXPECT_NE(Tune(jobs, 40'000, 2, 7), Tune(jobs, 40'000, 2, 8));
}

TEST(FillPoolTest, PackingLeavesLessIdleThanSpreading) {
  const auto spread = Fill(PlacementRule::kSpread);
  const auto pack = Fill(PlacementRule::kPack);
  ASSERT_TRUE(spread.ok() && pack.ok());
  EXPECT_EQ(spread->jobs, pack->jobs) << "the same jobs for both";
  EXPECT_GT(pack->allocated, spread->allocated);
  EXPECT_LE(pack->allocated, 1);
  EXPECT_GE(pack->allocated, pack->allocated_at_full);
  EXPECT_NEAR(pack->asked, 1.3, 0.05);
  EXPECT_GE(pack->fragmented, 0);
  EXPECT_LE(pack->fragmented, 1);
}

TEST(FillPoolTest, TheSameSeedGivesTheSameResultAndInvariantsHold) {
  FillOptions options{.seed = 5, .mix_is_known = false};
  const auto first = Fill(PlacementRule::kPack, options);
  options.check_invariants = true;
  const auto second = Fill(PlacementRule::kPack, options);
  ASSERT_TRUE(first.ok() && second.ok()) << second.status();
  EXPECT_EQ(first->allocated, second->allocated);
  EXPECT_EQ(first->dropped, second->dropped);
}

TEST(FillPoolTest, MachinesWithoutCoresTakeNoJobs) {
  const std::vector<FillNode> nodes = {{"gpu", 2, {.milli_cores = 3000}}};
  const std::vector<JobNeed> jobs = {
      {.wanted_device = "", .bytes = 500, .host = {.milli_cores = 2000}}};
  const auto result =
      FillPool(nodes, jobs, {.ratio = 1}, [](double) { return true; });
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->jobs, 4u);
  EXPECT_EQ(result->dropped, 3u);
  EXPECT_DOUBLE_EQ(result->allocated, 0.25);
  EXPECT_DOUBLE_EQ(result->fragmented, 1) << "nobody else has the cores";
}

TEST(FillPoolTest, WhatCannotBeFilledIsRefused) {
  const auto always = [](double) { return true; };
  const std::vector<JobNeed> host_only = {
      {.wanted_device = kHostKind, .bytes = 0}};
  EXPECT_THAT(FillPool({}, host_only, {}, always).status().message(),
              HasSubstr("no node has a device"));
  EXPECT_THAT(
      FillPool(GenerateNodes(1), host_only, {}, always).status().message(),
      HasSubstr("no job needs a device"));
  EXPECT_TRUE(absl::IsCancelled(
      FillPool(GenerateNodes(20), GenerateNeeds(400, 3), {}, [](double) {
        return false;
      }).status()));
}

}  // namespace
}  // namespace gpupool::scheduler
