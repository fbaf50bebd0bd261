#include "engine/backends/cpu/cpu_backend.h"

#include <gtest/gtest.h>

#include "engine/graph/builder.h"

namespace gpupool::engine {
namespace {

// oneDNN divides by zero when it describes products and windows of such sizes.
TEST(CpuBackendTest, ADimensionBeyondIntEndsNoProcess) {
  constexpr int64_t kMany = int64_t{1} << 32;
  Graph graph;
  GraphBuilder builder(&graph);
  const ValueId x = *builder.Input("x", {DType::kFloat32, {8, kMany}});
  const ValueId w = *builder.Input("w", {DType::kFloat32, {10, kMany}});
  graph.AddOutput("product", *builder.EmitOne(Op::kMatMul, {x, w},
                                              MatMulAttributes{false, true}));
  const ValueId image =
      *builder.Input("image", {DType::kFloat32, {1, kMany / 2 - 2, 6, 6}});
  Pool2dAttributes pool;
  pool.kernel = {2, 2};
  pool.stride = {2, 2};
  graph.AddOutput("pool", *builder.EmitOne(Op::kMaxPool, {image}, pool));
  CpuBackend backend(1);
  for (const Node& node : graph.nodes()) {
    const auto kernel =
        backend.Compile({graph, node, std::vector<bool>(node.inputs.size())});
    EXPECT_TRUE(kernel.ok()) << kernel.status();
  }
}

}  // namespace
}  // namespace gpupool::engine
