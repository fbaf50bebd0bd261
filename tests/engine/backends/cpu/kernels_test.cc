#include "engine/backends/cpu/kernel/kernels.h"

#include <gtest/gtest.h>

#include "engine/graph/builder.h"

namespace gpupool::engine {
namespace {

TEST(KernelsTest, MovedBytesAreThoseOfAllOperands) {
  Graph graph;
  GraphBuilder builder(&graph);
  const ValueId a = *builder.Input("a", {DType::kFloat32, {3, 4}});
  const ValueId b = *builder.Input("b", {DType::kFloat32, {4}});
  const ValueId table = *builder.Input("table", {DType::kFloat32, {3, 4}});
  graph.AddOutput("y", *builder.EmitOne(Op::kAdd, {a, table}));
  graph.AddOutput("z", *builder.EmitOne(Op::kSigmoid, {b}));
  EXPECT_EQ(MovedBytes({graph, graph.nodes()[0], {}}), 3u * 12 * 4);
  EXPECT_EQ(MovedBytes({graph, graph.nodes()[1], {}}), 2u * 4 * 4);
}

}  // namespace
}  // namespace gpupool::engine
