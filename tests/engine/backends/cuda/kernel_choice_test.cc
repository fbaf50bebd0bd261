// Choices without NVIDIA's libraries. planning_backend_test.cc tests choices
// with them.
#include "engine/backends/cuda/kernel_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/graph/builder.h"

namespace gpupool::engine::cuda {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const DeviceFacts kTuring{.name = "Tesla T4", .compute_capability = "7.5"};
const DeviceFacts kHopper{.name = "NVIDIA H200", .compute_capability = "9.0"};

// Compiles a product of each type twice and returns the lines of the log.
std::vector<std::string> LogOf(const DeviceFacts& facts,
                               const std::vector<DType>& types,
                               const KernelOptions& options) {
  std::vector<std::string> lines;
  KernelChoice choice(&facts, nullptr, [&](absl::string_view line) {
    lines.emplace_back(line);
  });
  for (const DType type : types) {
    Graph graph;
    GraphBuilder builder(&graph);
    const ValueId a = *builder.Input("a", {type, {4, 8}});
    const ValueId b = *builder.Input("b", {type, {8, 4}});
    EXPECT_TRUE(builder.Emit(Op::kMatMul, {a, b}, MatMulAttributes{}).ok());
    for (int i = 0; i < 2; ++i) {
      const auto kernel =
          choice.Choose({graph, graph.nodes()[0], {false, false}, options}, {});
      EXPECT_TRUE(kernel.ok()) << kernel.status();
    }
  }
  return lines;
}

TEST(KernelChoiceTest, APrecisionThatTheGpuLacksIsToldOnce) {
  KernelOptions high;
  high.tensor_float32 = true;
  EXPECT_THAT(LogOf(kTuring, {DType::kFloat32, DType::kBFloat16}, high),
              ElementsAre(HasSubstr("Tesla T4 (compute capability 7.5) has no "
                                    "TF32"),
                          HasSubstr("no tensor cores for bfloat16")));
  EXPECT_THAT(LogOf(kHopper, {DType::kFloat32, DType::kBFloat16}, high),
              IsEmpty());
  EXPECT_THAT(LogOf(kTuring, {DType::kFloat32, DType::kFloat16}, {}),
              IsEmpty());
}

TEST(KernelChoiceTest, NobodyNeedsToListen) {
  const KernelOptions high{.tensor_float32 = true};
  KernelChoice choice(&kTuring, nullptr, nullptr);
  Graph graph;
  GraphBuilder builder(&graph);
  const ValueId a = *builder.Input("a", {DType::kFloat32, {4, 4}});
  ASSERT_TRUE(builder.Emit(Op::kMatMul, {a, a}, MatMulAttributes{}).ok());
  EXPECT_TRUE(
      choice.Choose({graph, graph.nodes()[0], {false, false}, high}, {}).ok());
}

}  // namespace
}  // namespace gpupool::engine::cuda
