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
  const auto trace =
      nlohmann::json::parse(ChromeTrace({{"step", &graph_, &profile}}));
  ASSERT_EQ(trace["traceEvents"].size(), 3u);
  const auto& thread = trace["traceEvents"][0];
  EXPECT_EQ(thread["ph"], "M");
  EXPECT_EQ(thread["args"]["name"], "step");
  const auto& event = trace["traceEvents"][2];
  EXPECT_EQ(event["name"], "second");
  EXPECT_EQ(event["cat"], "tanh");
  EXPECT_EQ(event["ts"], 0.5);
  EXPECT_EQ(event["dur"], 2.0);
  EXPECT_EQ(event["args"]["flops"], NodeFlops(graph_, graph_.nodes()[1]));
  EXPECT_EQ(event["args"]["bytes"],
            graph_.value(graph_.nodes()[1].inputs[0]).bytes() +
                graph_.value(graph_.nodes()[1].outputs[0]).bytes());
  EXPECT_EQ(trace["traceEvents"][1]["name"], "first\"\n");
}

TEST_F(ProfileTest, ProgramsOfOneTraceShareItsClock) {
  Profile first(1), second(1);
  first.Add(0, 5000, 6000);
  second.Add(1, 2000, 5000);
  const TracedProgram programs[] = {{"step", &graph_, &first},
                                    {"accumulate", &graph_, &second}};
  const auto events =
      nlohmann::json::parse(ChromeTrace(programs))["traceEvents"];
  ASSERT_EQ(events.size(), 4u);
  EXPECT_EQ(events[1]["tid"], 0);
  EXPECT_EQ(events[1]["ts"], 3.0);
  EXPECT_EQ(events[3]["tid"], 1);
  EXPECT_EQ(events[3]["ts"], 0.0);
}

TEST_F(ProfileTest, CountersOfMemoryComeBeforeTheNodesAtWhichTheyChange) {
  Profile profile(2);
  for (int run = 0; run < 2; ++run) {
    profile.Add(0, 1000, 1500, 900);
    profile.Add(1, 1500, 3500, 900);
    profile.EndRun();
  }
  const ArenaUse arena = {
      .live_bytes = {100, 300},
      .peak_node = 1,
      .largest = {{.name = "y\"", .kind = "activation", .bytes = 200}}};
  const auto events = nlohmann::json::parse(ChromeTrace(
      {{"step", &graph_, &profile, &arena, 400, 50}}))["traceEvents"];
  std::string order;
  std::vector<uint64_t> planned;
  for (const auto& event : events) {
    order += event["ph"].get<std::string>();
    if (event["name"] != "planned bytes") continue;
    planned.push_back(event["args"]["value"].get<uint64_t>());
  }
  // Each run begins with both counters. The measured bytes do not change.
  EXPECT_EQ(order, "MCCXCiXCCXCX");
  EXPECT_EQ(planned, (std::vector<uint64_t>{150, 350, 150, 350}));
  EXPECT_EQ(events[2]["name"], "measured bytes");
  EXPECT_EQ(events[2]["args"]["value"], 900);
  const auto& peak = events[5];
  EXPECT_EQ(peak["name"], "planned peak");
  EXPECT_EQ(peak["ts"], 0.5);
  EXPECT_EQ(peak["args"]["node"], 1);
  EXPECT_EQ(peak["args"]["bytes"], 350);
  EXPECT_EQ(peak["args"]["arena"], 400);
  EXPECT_EQ(peak["args"]["outside"], 50);
  EXPECT_EQ(peak["args"]["values"][0]["name"], "y\"");
  EXPECT_EQ(peak["args"]["values"][0]["bytes"], 200);
}

TEST_F(ProfileTest, AnEmptyProfileIsValidToo) {
  const Profile profile;
  EXPECT_TRUE(profile.Totals().empty());
  EXPECT_EQ(nlohmann::json::parse(ChromeTrace({}))["traceEvents"].size(), 0u);
  const auto trace =
      nlohmann::json::parse(ChromeTrace({{"step", &graph_, &profile}}));
  EXPECT_EQ(trace["traceEvents"].size(), 1u);  // the thread's name
}

}  // namespace
}  // namespace gpupool::engine
