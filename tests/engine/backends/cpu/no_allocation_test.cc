// Checks that kernels allocate nothing while they run.
#include <gtest/gtest.h>

#include <algorithm>
#include <new>
#include <string>
#include <vector>

#include "engine/backends/cpu/cpu_backend.h"
#include "engine/base/align.h"
#include "tests/engine/backends/cpu/op_cases.h"
#include "tests/engine/runtime/allocation_counter.h"

namespace gpupool::engine {
namespace {

// Zeros, aligned as kernels expect.
class AlignedBytes {
 public:
  explicit AlignedBytes(uint64_t bytes)
      : storage_(bytes + 2 * kAlignmentBytes) {}
  std::byte* data() {
    const auto address = reinterpret_cast<uint64_t>(storage_.data());
    return storage_.data() + (AlignUp(address) - address);
  }

 private:
  std::vector<std::byte> storage_;
};

// Returns the allocations of the second and third run of the graph's only node.
uint64_t AllocationsOf(const Graph& graph, int threads) {
  CpuBackend backend(threads);
  const Node& node = graph.nodes()[0];
  auto kernel = backend.Compile(
      {graph, node, std::vector<bool>(node.inputs.size(), false)});
  EXPECT_TRUE(kernel.ok()) << kernel.status();
  std::vector<AlignedBytes> memory;
  for (const Value& value : graph.values()) memory.emplace_back(value.bytes());
  AlignedBytes workspace((*kernel)->workspace_bytes());
  KernelBuffers buffers;
  for (const ValueId id : node.inputs) {
    buffers.inputs.push_back(memory[static_cast<size_t>(id.index)].data());
  }
  for (const ValueId id : node.outputs) {
    buffers.outputs.push_back(memory[static_cast<size_t>(id.index)].data());
  }
  buffers.workspace = workspace.data();
  EXPECT_TRUE((*kernel)->Bind(buffers).ok());
  backend.BeginRun();
  EXPECT_TRUE((*kernel)->Run().ok());
  const AllocationCounter counter;
  const bool ok = (*kernel)->Run().ok() && (*kernel)->Run().ok();
  const uint64_t allocations = counter.ours();
  EXPECT_TRUE(ok);
  return allocations;
}

TEST(NoAllocationTest, KernelsThatMatterAllocateNothing) {
  const std::vector<std::string> names = {
      "Fused",       "Unary4",     "Binary0",   "Attention", "AttentionGrad",
      "BatchMatMul", "LogSoftmax", "Transpose", "Slice",     "Concat",
      "Gather",      "GatherGrad", "ArgReduce", "Cast",      "RmspropStep"};
  size_t found = 0;
  for (auto* list : {&ElementwiseOpCases, &CoreOpCases}) {
    for (const OpCaseMaker& maker : (*list)()) {
      if (std::find(names.begin(), names.end(), maker.name) == names.end()) {
        continue;
      }
      ++found;
      for (uint32_t seed = 0; seed < 6; ++seed) {
        OpCase at(seed);
        maker.build(at);
        const Value& x = at.graph().value(at.graph().nodes()[0].inputs[0]);
        if (maker.name == "Binary0" && x.dtype != DType::kFloat32) continue;
        EXPECT_EQ(AllocationsOf(at.graph(), 1 + static_cast<int>(seed) % 2), 0u)
            << maker.name << " seed " << seed;
      }
    }
  }
  EXPECT_EQ(found, names.size());
}

TEST(NoAllocationTest, ConversionsOfTheFallbackAllocateNothing) {
  Graph graph;
  GraphBuilder builder(&graph);
  const ValueId x = *builder.Input("x", {DType::kFloat16, {100}});
  graph.AddOutput("y", *builder.EmitOne(Op::kSigmoid, {x}));
  EXPECT_EQ(AllocationsOf(graph, 1), 0u);
}

}  // namespace
}  // namespace gpupool::engine
