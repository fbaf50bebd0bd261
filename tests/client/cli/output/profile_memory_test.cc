#include "client/cli/output/profile_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "client/cli/output/profile_trace.h"

namespace gpupool::client {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

// A trace of two runs of two nodes. The allocator gives more in the second run.
constexpr char kTrace[] = R"({"traceEvents": [
  {"ph": "M", "tid": 0, "args": {"name": "step"}},
  {"ph": "C", "tid": 0, "name": "planned bytes", "ts": 0,
   "args": {"value": 100}},
  {"ph": "C", "tid": 0, "name": "measured bytes", "ts": 0,
   "args": {"value": 500}},
  {"ph": "X", "tid": 0, "name": "fc", "cat": "matmul", "ts": 0, "dur": 1,
   "args": {"run": 0, "node": 4}},
  {"ph": "C", "tid": 0, "name": "planned bytes", "ts": 1,
   "args": {"value": 400}},
  {"ph": "i", "s": "t", "tid": 0, "name": "planned peak", "ts": 1,
   "args": {"node": 6, "bytes": 400, "arena": 410, "outside": 50, "values": [
     {"name": "v3", "layer": "fc", "op": "matmul", "kind": "activation",
      "bytes": 350}]}},
  {"ph": "X", "tid": 0, "name": "act", "cat": "relu", "ts": 1, "dur": 1,
   "args": {"run": 0, "node": 6}},
  {"ph": "C", "tid": 0, "name": "planned bytes", "ts": 2,
   "args": {"value": 100}},
  {"ph": "X", "tid": 0, "name": "fc", "cat": "matmul", "ts": 2, "dur": 1,
   "args": {"run": 1, "node": 4}},
  {"ph": "C", "tid": 0, "name": "planned bytes", "ts": 3,
   "args": {"value": 400}},
  {"ph": "C", "tid": 0, "name": "measured bytes", "ts": 3,
   "args": {"value": 600}},
  {"ph": "X", "tid": 0, "name": "act", "cat": "relu", "ts": 3, "dur": 1,
   "args": {"run": 1, "node": 6}}]})";

std::vector<ProgramMemory> MemoryOf(const std::string& json) {
  const auto trace = ParseProfileTrace(json);
  EXPECT_TRUE(trace.ok()) << trace.status();
  return trace.ok() ? trace->memory : std::vector<ProgramMemory>();
}

TEST(ProfileMemoryTest, EachNodeHasItsBytesAndTheMostOfAllRuns) {
  const std::vector<ProgramMemory> programs = MemoryOf(kTrace);
  ASSERT_THAT(programs, SizeIs(1));
  const ProgramMemory& memory = programs[0];
  EXPECT_EQ(memory.program, "step");
  ASSERT_THAT(memory.nodes, SizeIs(2));
  EXPECT_EQ(memory.nodes[0].layer, "fc");
  EXPECT_EQ(memory.nodes[0].planned, 100u);
  EXPECT_EQ(memory.nodes[0].measured, 500u);
  EXPECT_EQ(memory.nodes[1].op, "relu");
  EXPECT_EQ(memory.nodes[1].planned, 400u);
  EXPECT_EQ(memory.nodes[1].measured, 600u);
  EXPECT_EQ(memory.most_measured(), 600u);
  EXPECT_EQ(memory.peak, 1u);
  EXPECT_EQ(memory.arena_bytes, 410u);
  EXPECT_EQ(memory.outside_bytes, 50u);
  ASSERT_THAT(memory.values, SizeIs(1));
  EXPECT_EQ(memory.values[0].kind, "activation");
  EXPECT_EQ(memory.values[0].bytes, 350u);
}

TEST(ProfileMemoryTest, ATraceWithoutCountersHasNoMemory) {
  EXPECT_THAT(MemoryOf(R"({"traceEvents": [{"ph": "X", "tid": 0,
      "name": "fc", "cat": "matmul", "ts": 0, "dur": 4,
      "args": {"run": 0, "node": 3}}]})"),
              IsEmpty());
}

TEST(ProfileMemoryTest, CountersOfOtherFormsAreRefused) {
  EXPECT_FALSE(ParseProfileTrace(R"({"traceEvents": [
      {"ph": "C", "tid": 0, "name": "planned bytes", "args": {}}]})")
                   .ok());
}

}  // namespace
}  // namespace gpupool::client
