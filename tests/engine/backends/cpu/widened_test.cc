#include "engine/backends/cpu/widened.h"

#include <gtest/gtest.h>

#include "engine/backends/cpu/cpu_backend.h"
#include "engine/graph/builder.h"

namespace gpupool::engine {
namespace {

KernelOr None(const CompileRequest&, const CpuContext&) { return nullptr; }

TEST(WidenedTest, ThereIsNoneWhereFloat32HasNone) {
  Graph graph;
  GraphBuilder builder(&graph);
  const ValueId x = *builder.Input("x", {DType::kFloat16, {2, 4}});
  graph.AddOutput("y", *builder.EmitOne(Op::kSoftmax, {x}));
  const CpuContext context(1);
  const auto kernel =
      MakeWidened({graph, graph.nodes()[0], {false}, {}}, context, None);
  ASSERT_TRUE(kernel.ok());
  EXPECT_EQ(*kernel, nullptr);
}

// Input and result are converted to float32. The mask already has the right
// type and needs no scratch memory.
TEST(WidenedTest, ConversionsAreInThePlan) {
  Graph graph;
  GraphBuilder builder(&graph);
  const ValueId x = *builder.Input("x", {DType::kFloat16, {64, 32}});
  graph.AddOutput("y", *builder.EmitOne(Op::kSoftmax, {x}));
  CpuBackend backend(1);
  const auto kernel = backend.Compile({graph, graph.nodes()[0], {false}, {}});
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  EXPECT_GE((*kernel)->workspace_bytes(), 2u * 64 * 32 * 4);
  EXPECT_LT((*kernel)->workspace_bytes(), 3u * 64 * 32 * 4);
}

TEST(WidenedTest, SixteenBitNumbersHaveFastKernels) {
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
    for (const Op op : {Op::kMatMul, Op::kConv2d, Op::kAttention, Op::kSoftmax,
                        Op::kLayerNorm, Op::kAdd, Op::kMaxPool}) {
      EXPECT_TRUE(IsFastOnCpu(op, dtype)) << OpName(op);
    }
  }
}

}  // namespace
}  // namespace gpupool::engine
