#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "engine/graph/builder.h"
#include "tests/engine/backends/cpu/graph_runner.h"

namespace gpupool::engine {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Returns the result for one query, two keys and values of 1, with this number
// in the query and this mask for both keys.
double ResultOf(double query, double mask) {
  Graph graph;
  GraphBuilder builder(&graph);
  ValueIds inputs;
  for (const char* name : {"q", "k", "v"}) {
    const int64_t rows = *name == 'q' ? 1 : 2;
    inputs.push_back(*builder.Input(name, {DType::kFloat32, {1, 1, rows, 1}}));
  }
  inputs.push_back(*builder.Input("mask", {DType::kFloat32, {2}}));
  graph.AddOutput(
      "y", *builder.EmitOne(Op::kAttention, inputs, AttentionAttributes{}));
  reference::NamedNumbers persistents;
  const auto y = RunOnCpu(
      graph,
      {{"q", {query}}, {"k", {1, 2}}, {"v", {1, 1}}, {"mask", {mask, mask}}},
      persistents, 1);
  EXPECT_TRUE(y.ok()) << y.status();
  return y.ok() ? y->find("y")->second[0] : 0;
}

TEST(AttentionTest, AQueryThatSeesNoKeyGivesZeros) {
  EXPECT_EQ(ResultOf(1, -kInfinity), 0);
}

TEST(AttentionTest, NanGivesNan) {
  EXPECT_TRUE(std::isnan(ResultOf(std::nan(""), 0)));
  EXPECT_TRUE(std::isnan(ResultOf(1, std::nan(""))));
}

}  // namespace
}  // namespace gpupool::engine
