#include "client/cli/output/profile_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "client/cli/output/profile_view.h"

namespace gpupool::client {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

struct Node {
  const char* layer;
  const char* op;
  double micros;
  double flops = 0;
  double bytes = 0;
};

// Returns the trace of two steps that run these nodes, `gap` microseconds
// apart.
std::string Trace(const std::vector<Node>& nodes, double gap = 0) {
  nlohmann::json events = nlohmann::json::array();
  events.push_back({{"ph", "M"}, {"args", {{"name", "step"}}}});
  double time = 0;
  for (int run = 0; run < 2; ++run) {
    for (const Node& node : nodes) {
      events.push_back({{"ph", "X"},
                        {"tid", 0},
                        {"name", node.layer},
                        {"cat", node.op},
                        {"ts", time},
                        {"dur", node.micros},
                        {"args",
                         {{"run", run},
                          {"node", 1},
                          {"flops", node.flops},
                          {"bytes", node.bytes}}}});
      time += node.micros + gap;
    }
    time += 1000;  // between steps
  }
  return nlohmann::json({{"traceEvents", events}}).dump();
}

ProfileTrace Parsed(const std::string& json) {
  const auto trace = ParseProfileTrace(json);
  EXPECT_TRUE(trace.ok()) << trace.status();
  return trace.value_or(ProfileTrace());
}

const std::vector<Node> kNodes = {{"block0.fc", "matmul", 600, 6e6, 1000},
                                  {"block0.act", "gelu", 100, 100, 4000},
                                  {"block1.fc", "matmul", 200, 2e6, 1000},
                                  {"add", "add", 100, 100, 4000}};

TEST(ProfileTraceTest, AStepOfFewerRowsIsAStepAndOtherProgramsAreNot) {
  nlohmann::json trace = nlohmann::json::parse(Trace(kNodes));
  const auto add = [&](int tid, const char* name) {
    trace["traceEvents"].push_back(
        {{"ph", "M"}, {"tid", tid}, {"args", {{"name", name}}}});
    nlohmann::json node = trace["traceEvents"][1];
    node["tid"] = tid;
    trace["traceEvents"].push_back(node);
  };
  add(1, "accumulate");
  EXPECT_EQ(Parsed(trace.dump()).steps, 2u);
  add(2, "short step");
  EXPECT_EQ(Parsed(trace.dump()).steps, 3u);
}

TEST(ProfileTraceTest, GroupsByOpAndByLayer) {
  const ProfileTrace trace = Parsed(Trace(kNodes));
  EXPECT_EQ(trace.steps, 2u);
  EXPECT_DOUBLE_EQ(trace.node_micros(), 2000);
  EXPECT_DOUBLE_EQ(trace.span_micros, 2000);
  const auto ops = GroupProfile(trace, false);
  ASSERT_EQ(ops.size(), 3u);
  EXPECT_EQ(ops[0].name, "matmul");
  EXPECT_EQ(ops[0].calls, 4u);
  EXPECT_DOUBLE_EQ(ops[0].micros, 1600);
  EXPECT_DOUBLE_EQ(ops[0].flops, 16e6);
  EXPECT_EQ(GroupProfile(trace, true)[0].name, "block0.fc");
}

TEST(ProfileTraceTest, AdvisesWithNumbers) {
  EXPECT_THAT(
      ProfileAdvice(Parsed(Trace(kNodes))),
      AllOf(HasSubstr("matmul takes 80% of the 1 ms of a step, at 10.0G"),
            HasSubstr("20% of the time is in nodes with less"),
            HasSubstr("on a GPU, 16-bit precision halves their bytes"),
            Not(HasSubstr("batch_size"))));
  EXPECT_THAT(ProfileAdvice(Parsed(Trace(kNodes, 100))),
              HasSubstr("23% of the time passes between nodes, of which 0 of 8 "
                        "take less than 20 us: a larger batch_size"));
  EXPECT_THAT(ProfileAdvice(Parsed(Trace({{"a", "matmul", 2, 1e6, 1}}))),
              HasSubstr("2 of 2 nodes take less than 20 us"));
}

TEST(ProfileTraceTest, TheFirstProgramNamesWhatIsCounted) {
  const ProfileTrace trace = Parsed(
      R"({"traceEvents": [
          {"ph": "M", "tid": 0, "args": {"name": "request"}},
          {"ph": "M", "tid": 1, "args": {"name": "other"}},
          {"ph": "X", "tid": 0, "name": "fc", "cat": "matmul", "ts": 0,
           "dur": 4, "args": {"run": 0, "node": 3}}]})");
  EXPECT_EQ(trace.unit, "request");
  EXPECT_THAT(ProfileAdvice(trace), AllOf(HasSubstr("of a request"),
                                          HasSubstr("a larger batch uses")));
  EXPECT_THAT(FlamePicture(trace), HasSubstr("ms a request"));
}

TEST(ProfileTraceTest, OtherFilesAreRefused) {
  EXPECT_FALSE(ParseProfileTrace("trace").ok());
  EXPECT_FALSE(ParseProfileTrace("{}").ok());
  EXPECT_FALSE(ParseProfileTrace(R"({"traceEvents": []})").ok());
  EXPECT_FALSE(ParseProfileTrace(R"({"traceEvents": [{"ph": "X"}]})").ok());
}

TEST(ProfileTraceTest, OlderTracesHaveTimesOnly) {
  const ProfileTrace trace = Parsed(
      R"({"traceEvents": [{"ph": "X", "tid": 0, "name": "fc", "cat": "matmul",
          "ts": 0, "dur": 4, "args": {"run": 0, "node": 3}}]})");
  EXPECT_EQ(trace.nodes[0].flops, 0);
  std::ostringstream out;
  PrintProfile({.stream = &out}, trace, false);
  EXPECT_THAT(out.str(), HasSubstr("matmul\t1\t0.004\t100.0%\t-\t-\t-\n"));
}

TEST(ProfileViewTest, PrintsOneStepOfEachGroup) {
  std::ostringstream out;
  PrintProfile({.stream = &out}, Parsed(Trace(kNodes)), true);
  EXPECT_THAT(out.str(),
              HasSubstr("OP\tCALLS\tMS\tSHARE\tFLOPS\tFLOPS/S\tBYTES/S\n"
                        "matmul\t2\t0.800\t80.0%\t8.0M\t10.0G\t2.5M\n"));
  EXPECT_THAT(out.str(),
              HasSubstr("LAYER\tCALLS\tMS\tSHARE\tFLOPS\tFLOPS/S\tBYTES/S\n"
                        "block0.fc\t1\t0.600\t60.0%\t6.0M\t10.0G\t1.7M\n"));
}

TEST(ProfileViewTest, ManyGroupsEndInOneRow) {
  std::vector<std::string> names;
  for (int i = 0; i < 20; ++i) names.push_back("layer" + std::to_string(i));
  std::vector<Node> nodes;
  for (const std::string& name : names) {
    nodes.push_back({name.c_str(), "relu", 10});
  }
  std::ostringstream out;
  PrintProfile({.stream = &out}, Parsed(Trace(nodes)), false);
  EXPECT_THAT(out.str(), HasSubstr("5 others\t5\t0.050\t25.0%"));
}

TEST(ProfileViewTest, TheFlameGraphHasPartsOfNamesAboveTheirOps) {
  const std::string svg = FlamePicture(Parsed(Trace(kNodes)));
  for (const char* text : {"<title>step: 1.000 ms a step, 100.0%</title>",
                           "<title>block0: 0.700 ms a step, 70.0%</title>",
                           "<title>fc: 0.600 ms a step, 60.0%</title>",
                           "<title>matmul: 0.200 ms a step, 20.0%</title>",
                           "<title>add: 0.100 ms a step, 10.0%</title>"}) {
    EXPECT_THAT(svg, HasSubstr(text));
  }
  EXPECT_THAT(FlamePicture(Parsed(Trace({{"a<b", "relu", 1}}))),
              AllOf(HasSubstr("a&lt;b"), Not(HasSubstr("a<b"))));
}

}  // namespace
}  // namespace gpupool::client
