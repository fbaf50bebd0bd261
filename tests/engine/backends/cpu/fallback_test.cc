#include "engine/backends/cpu/fallback.h"

#include <gtest/gtest.h>

#include "engine/backends/cpu/cpu_backend.h"
#include "engine/graph/builder.h"
#include "tests/engine/backends/cpu/graph_runner.h"

namespace gpupool::engine {
namespace {

using reference::NamedNumbers;
using reference::Numbers;

// Returns op(x) for x of any type.
Numbers RunUnary(Op op, const Attributes& attributes, const TensorType& type,
                 const Numbers& x) {
  Graph graph;
  GraphBuilder builder(&graph);
  const ValueId in = *builder.Input("x", type);
  graph.AddOutput("y", *builder.EmitOne(op, {in}, attributes));
  NamedNumbers none;
  auto outputs = RunOnCpu(graph, {{"x", x}}, none, 1);
  EXPECT_TRUE(outputs.ok()) << outputs.status();
  return outputs.ok() ? (*outputs)["y"] : Numbers();
}

TEST(FallbackTest, ComputesInEveryFloatingType) {
  for (const DType dtype :
       {DType::kFloat64, DType::kFloat16, DType::kBFloat16}) {
    EXPECT_EQ(IsFastOnCpu(Op::kRelu, dtype), dtype != DType::kFloat64);
    EXPECT_EQ(RunUnary(Op::kRelu, {}, {dtype, {3}}, {-1, 0.5, 2}),
              (Numbers{0, 0.5, 2}));
  }
}

TEST(FallbackTest, ComputesInEveryIntegerType) {
  for (const DType dtype :
       {DType::kInt32, DType::kInt64, DType::kInt8, DType::kUint8}) {
    const UnaryAttributes clip{UnaryFunction::kClip, 3, 5};
    EXPECT_EQ(RunUnary(Op::kUnary, clip, {dtype, {3}}, {1, 4, 100}),
              (Numbers{3, 4, 5}));
  }
}

TEST(FallbackTest, SeesThroughTheLayout) {
  // Channel c of image n holds 10 n + c.
  Numbers x;
  for (int i = 0; i < 2 * 3 * 4; ++i) x.push_back(i / 12 * 10 + i / 4 % 3);
  Graph graph;
  GraphBuilder builder(&graph);
  const ValueId in = *builder.Input("x", {DType::kFloat64, {2, 3, 2, 2}});
  graph.AddOutput("y", *builder.EmitOne(Op::kGlobalAvgPool, {in}));
  graph.mutable_value(in).layout = Layout::kChannelsLast;
  NamedNumbers none;
  auto outputs = RunOnCpu(graph, {{"x", x}}, none, 1);
  ASSERT_TRUE(outputs.ok()) << outputs.status();
  EXPECT_EQ((*outputs)["y"], (Numbers{0, 1, 2, 10, 11, 12}));
}

TEST(FallbackTest, NodesWithoutOutputElementsDoNothing) {
  Graph graph;
  GraphBuilder builder(&graph);
  const Shape empty = *Shape::CreateMaybeEmpty({0, 3});
  const ValueId x = *builder.Input("x", {DType::kFloat32, empty});
  graph.AddOutput("y", *builder.EmitOne(Op::kRelu, {x}));
  CpuBackend backend(1);
  auto kernel = backend.Compile({graph, graph.nodes()[0], {false}});
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  ASSERT_TRUE((*kernel)->Bind({{nullptr}, {nullptr}, nullptr, nullptr}).ok());
  EXPECT_TRUE((*kernel)->Run().ok());
}

}  // namespace
}  // namespace gpupool::engine
