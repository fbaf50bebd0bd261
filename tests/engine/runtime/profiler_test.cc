#include "engine/runtime/profiler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "engine/graph/builder.h"

namespace gpupool::engine {
namespace {

using ::testing::HasSubstr;

class ProfileTest : public ::testing::Test {
 protected:
  ProfileTest() {
    GraphBuilder builder(&graph_);
    const ValueId x = *builder.Input("x", {DType::kFloat32, {1000}});
    builder.SetSource("first\"\n", 0);
    const ValueId y = *builder.EmitOne(Op::kRelu, {x});
    builder.SetSource("second", 1);
    EXPECT_TRUE(builder.EmitOne(Op::kTanh, {y}).ok());
  }
  Graph graph_;
};

TEST_F(ProfileTest, AddsUpAndSortsTheSlowestFirst) {
  Profile profile(1);
  for (int run = 0; run < 3; ++run) {
    profile.Add(0, 1000, 1500);
    profile.Add(1, 1500, 3500);
    profile.EndRun();
  }
  const std::vector<NodeTotal> totals = profile.Totals();
  ASSERT_EQ(totals.size(), 2u);
  EXPECT_EQ(totals[0].node, 1);
  EXPECT_EQ(totals[0].nanos, 6000);
  EXPECT_EQ(totals[0].runs, 3u);
  EXPECT_THAT(profile.Table(graph_), HasSubstr(" 80.0%         2.00"));
}

TEST_F(ProfileTest, TraceIsJsonOfTheTracedRunsOnly) {
  Profile profile(1);
  for (int run = 0; run < 2; ++run) {
    profile.Add(0, 1000, 1500);
    profile.Add(1, 1500, 3500);
    profile.EndRun();
  }
  const auto trace = nlohmann::json::parse(profile.ChromeTrace(graph_));
  ASSERT_EQ(trace["traceEvents"].size(), 2u);
  const auto& event = trace["traceEvents"][1];
  EXPECT_EQ(event["name"], "second");
  EXPECT_EQ(event["cat"], "tanh");
  EXPECT_EQ(event["ts"], 0.5);
  EXPECT_EQ(event["dur"], 2.0);
  EXPECT_EQ(trace["traceEvents"][0]["name"], "first\"\n");
}

TEST_F(ProfileTest, AnEmptyProfileIsValidToo) {
  const Profile profile;
  EXPECT_TRUE(profile.Totals().empty());
  const auto trace = nlohmann::json::parse(profile.ChromeTrace(graph_));
  EXPECT_TRUE(trace["traceEvents"].empty());
}

}  // namespace
}  // namespace gpupool::engine
