#include "client/cli/simulation/sim_result.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <sstream>

namespace gpupool::client {
namespace {

SimResult Result(const std::string& policy) {
  return {.policy = policy,
          .summary = {.jobs = 12345,
                      .mean_jct_s = 90,
                      .p50_jct_s = 30.5,
                      .p99_jct_s = 7200,
                      .mean_wait_s = 60,
                      .makespan_s = 86400,
                      .utilization = 0.625,
                      .arrival_utilization = 0.875,
                      .fragmentation = 0.01,
                      .preemptions = 17,
                      .moves = 2,
                      .events = 5000},
          .seconds = 2,
          .replay = {}};
}

TEST(SimResultTest, OnePolicyIsAnObjectWithStableKeys) {
  const auto json = nlohmann::ordered_json::parse(SimJson({Result("las")}));
  std::vector<std::string> keys;
  for (const auto& [key, value] : json.items()) keys.push_back(key);
  EXPECT_THAT(keys, ::testing::ElementsAre(
                        "policy", "jobs", "mean_jct_s", "p50_jct_s",
                        "p99_jct_s", "mean_wait_s", "makespan_s", "utilization",
                        "arrival_utilization", "fragmentation", "preemptions",
                        "moves", "events", "seconds", "decisions_per_second"));
  EXPECT_EQ(json["policy"], "las");
  EXPECT_EQ(json["p50_jct_s"], 30.5);
  EXPECT_EQ(json["decisions_per_second"], 2500);
}

TEST(SimResultTest, SeveralPoliciesAreAnArray) {
  const auto json =
      nlohmann::json::parse(SimJson({Result("las"), Result("fifo")}));
  ASSERT_EQ(json.size(), 2u);
  EXPECT_EQ(json[1]["policy"], "fifo");
}

TEST(SimResultTest, YamlHoldsTheSame) {
  EXPECT_THAT(SimYaml({Result("las")}),
              ::testing::StartsWith("policy: las\njobs: 12345\n"));
  EXPECT_THAT(SimYaml({Result("las"), Result("srs")}),
              ::testing::HasSubstr("\n- policy: srs\n  jobs: 12345\n"));
}

TEST(SimResultTest, TheTableHasALineForEachPolicy) {
  std::ostringstream out;
  SimTable({Result("las")}).Print({.stream = &out}, false);
  EXPECT_EQ(
      out.str(),
      "las\t12,345\t1m30s\t30s\t2h00m\t1m00s\t1d00h\t87.5%\t62.5%\t1.0%\t17\t"
      "2.5k\n");
}

TEST(SimResultTest, AReplayThatTookNoTimeHasNoRate) {
  SimResult result = Result("las");
  result.seconds = 0;
  EXPECT_EQ(result.decisions_per_second(), 0);
}

}  // namespace
}  // namespace gpupool::client
