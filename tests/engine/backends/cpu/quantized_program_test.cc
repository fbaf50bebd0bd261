// Compares a small quantised net that computes with its codes with the same net
// in float32, both after all passes on the CPU back end.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "engine/backends/cpu/cpu_backend.h"
#include "engine/base/philox.h"
#include "engine/passes/pipeline.h"
#include "tests/engine/backends/cpu/graph_runner.h"
#include "tests/engine/passes/coded_graph.h"

namespace gpupool::engine {
namespace {

using reference::NamedNumbers;
using reference::Numbers;

const QuantizeAttributes kImage{1.0 / 64, {DType::kUint8, 128, 0, 255}};
const QuantizeAttributes kWide{1.0 / 16, {DType::kUint8, 120, 0, 255}};
const QuantizeAttributes kRectified{1.0 / 32, {DType::kUint8, 0, 0, 255}};
const QuantizeAttributes kSigned{1.0 / 16, {DType::kInt8, -3, -128, 127}};

// A residual net with a pool, whose last codes are the output.
class SmallNet {
 public:
  explicit SmallNet(int64_t batch) {
    const ValueId image =
        *builder_.Input("x", {DType::kFloat32, {batch, 3, 17, 15}});
    ValueId x = coded_.Coded(image, kImage);
    x = coded_.Coded(Conv(x, {16, 3, 2}), kRectified);
    Pool2dAttributes pool;
    pool.kernel = {3, 3};
    pool.stride = {2, 2};
    pool.padding = {1, 1};
    x = coded_.Coded(coded_.Emit(Op::kMaxPool, {x}, pool), kRectified);
    const ValueId inner =
        coded_.Coded(coded_.Emit(Op::kRelu, {Conv(x, {16, 3})}), kRectified);
    const ValueId y = coded_.Coded(Conv(inner, {16, 3}), kWide);
    x = coded_.Emit(Op::kRelu, {coded_.Emit(Op::kAdd, {y, x})});
    x = coded_.Coded(x, kRectified);
    x = coded_.Coded(Conv(x, {16, 3, 1, 16}), kRectified);  // depthwise
    graph_.AddOutput("y", coded_.Quantize(Conv(x, {10, 1}), kSigned));
  }

  const Graph& graph() const { return graph_; }

 private:
  struct Filters {
    int64_t count, kernel, stride = 1, groups = 1;
  };
  ValueId Conv(ValueId x, const Filters& of) {
    const auto [filters, kernel, stride, groups] = of;
    const std::string name = "w" + std::to_string(convolutions_++);
    const int64_t channels = graph_.value(x).shape[1] / groups;
    const ValueId bias = *builder_.Persistent(
        name + "_bias", {DType::kFloat32, {filters}}, MemoryClass::kWeight);
    Conv2dAttributes conv;
    conv.stride = {stride, stride};
    conv.padding = {kernel / 2, kernel / 2};
    conv.groups = groups;
    conv.epilogue.bias = true;
    return coded_.Emit(
        Op::kConv2d,
        {x, coded_.Weights(name, {filters, channels, kernel, kernel}), bias},
        conv);
  }

  Graph graph_;
  GraphBuilder builder_{&graph_};
  testing::CodedGraph coded_{&builder_};
  int convolutions_ = 0;
};

NamedNumbers RandomNumbersOf(const Graph& graph, ValueKind kind) {
  Philox random(11);
  NamedNumbers all;
  for (const Value& value : graph.values()) {
    if (value.kind != kind) continue;
    Numbers& numbers = all[value.name];
    numbers.resize(static_cast<size_t>(value.shape.elements()));
    for (double& x : numbers) {
      x = 2 * random.NextDouble() - 1;
      if (value.dtype == DType::kInt8) {
        x = std::round(127 * x);
      } else if (value.name.ends_with("_scale")) {
        x = 0.001 + 0.003 * std::abs(x);
      } else if (kind == ValueKind::kInput) {
        x *= 3;  // some codes saturate
      }
      x = static_cast<float>(x);
    }
  }
  return all;
}

Graph Optimised(const Graph& graph, bool integer_products) {
  Graph optimised = graph;
  const absl::Status status =
      RunPasses(optimised, {.integer_products = integer_products}, nullptr);
  EXPECT_TRUE(status.ok()) << status;
  return optimised;
}

Numbers RunNet(const Graph& graph, int threads) {
  NamedNumbers weights = RandomNumbersOf(graph, ValueKind::kPersistent);
  const auto outputs = RunOnCpu(
      graph, RandomNumbersOf(graph, ValueKind::kInput), weights, threads);
  EXPECT_TRUE(outputs.ok()) << outputs.status();
  return outputs.ok() ? outputs->at("y") : Numbers();
}

int CountOps(const Graph& graph, Op op) {
  return static_cast<int>(
      std::count_if(graph.nodes().begin(), graph.nodes().end(),
                    [op](const Node& node) { return node.op == op; }));
}

TEST(QuantizedProgramTest, CodesAreWithinOneOfThoseOfTheFloatNet) {
  for (const int64_t batch : {1, 3}) {
    const SmallNet net(batch);
    const Graph integers = Optimised(net.graph(), true);
    const Graph floats = Optimised(net.graph(), false);
    EXPECT_EQ(CountOps(integers, Op::kQuantizedConv2d), 5);
    EXPECT_EQ(CountOps(integers, Op::kQuantizedAdd), 1);
    EXPECT_EQ(CountOps(integers, Op::kConv2d), 0);
    EXPECT_EQ(CountOps(integers, Op::kDequantize), 0);
    EXPECT_EQ(CountOps(floats, Op::kQuantizedConv2d), 0);
    const Numbers wanted = RunNet(floats, 2);
    EXPECT_GT(*std::max_element(wanted.begin(), wanted.end()), 10);
    EXPECT_LT(*std::min_element(wanted.begin(), wanted.end()), -10);
    for (const int threads : {1, 2}) {
      const Numbers got = RunNet(integers, threads);
      ASSERT_EQ(got.size(), wanted.size());
      for (size_t i = 0; i < got.size(); ++i) {
        EXPECT_LE(std::abs(got[i] - wanted[i]), 1) << i;
      }
    }
  }
}

TEST(QuantizedProgramTest, NothingRunsOnAReferenceKernelIfIntegersAreFast) {
  if (!CpuBackend(1).PrefersIntegerProducts()) {
    GTEST_SKIP() << "this processor has no VNNI instructions";
  }
  const Graph graph = Optimised(SmallNet(2).graph(), true);
  for (const Node& node : graph.nodes()) {
    EXPECT_TRUE(IsFastOnCpu(graph, node)) << OpName(node.op);
  }
}

}  // namespace
}  // namespace gpupool::engine
