// Compares the composition, with portable products instead of cuBLASLt's, with
// the reference: operands, transpositions, offsets and scratch memory.
#include "engine/backends/cuda/kernels/composed_attention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "engine/backends/cuda/kernels/single_op.h"
#include "engine/base/status_macros.h"
#include "tests/engine/backends/portable/attention_cases.h"

namespace gpupool::engine::cuda {
namespace {

using ::gpupool::engine::testing::AttentionCase;
using ::testing::HasSubstr;

portable::KernelOr PortableProduct(const CompileRequest& request) {
  SingleOp single;
  single.op = request.node.op;
  single.attributes = request.node.attributes;
  for (size_t i = 0; i < request.node.inputs.size(); ++i) {
    single.inputs.push_back(portable::InputOf(request, i));
  }
  single.outputs = {portable::OutputOf(request, 0)};
  return MakeSingleOp(single, {});
}

// A back end that composes attention and runs everything else on portable
// kernels.
class ComposingBackend : public DeviceBackend {
 public:
  absl::StatusOr<std::unique_ptr<Kernel>> Compile(
      const CompileRequest& request) override {
    const Op op = request.node.op;
    if (op != Op::kAttention && op != Op::kAttentionGrad) {
      return portable::MakePortableKernel(request, {});
    }
    ASSIGN_OR_RETURN(auto kernel, MakeComposedAttention(
                                      request, {}, PortableProduct, limits));
    if (kernel == nullptr) return absl::InternalError("it was not composed");
    largest_workspace = std::max(largest_workspace, kernel->workspace_bytes());
    return kernel;
  }

  ComposedAttentionLimits limits{.least_work = 1};
  uint64_t largest_workspace = 0;
};

class ComposedAttentionTest : public ::testing::Test {
 protected:
  portable::KernelOr Make(const ComposedAttentionLimits& limits,
                          const AttentionCase& at = {}) {
    graph_ = testing::AttentionGraph(at);
    const Node& node = graph_.nodes()[0];
    return MakeComposedAttention(
        {graph_, node, std::vector<bool>(node.inputs.size(), false), {}}, {},
        PortableProduct, limits);
  }

  Graph graph_;
};

TEST_F(ComposedAttentionTest, AgreesWithTheReferenceInEveryForm) {
  for (const AttentionCase& at : testing::AttentionCases(DType::kFloat32)) {
    SCOPED_TRACE(at.Text());
    ComposingBackend backend;
    testing::ExpectAttentionAgrees(at, backend, 1e-5);
  }
}

// With one head at a time, every operand begins at another place in each part.
TEST_F(ComposedAttentionTest, PartsGiveWhatTheWholeGives) {
  for (AttentionCase at : testing::AttentionCases(DType::kFloat32)) {
    SCOPED_TRACE(at.Text());
    at.sizes = {2, 3, 8, 16, 4, 4};
    ComposingBackend whole, parts;
    testing::ExpectAttentionAgrees(at, whole, 1e-5);
    parts.limits.most_scratch = 2 * 8 * 16 * sizeof(float);
    testing::ExpectAttentionAgrees(at, parts, 1e-5);
    EXPECT_LT(parts.largest_workspace, whole.largest_workspace / 4);
  }
}

TEST_F(ComposedAttentionTest, ScratchMemoryIsThatOfTheScores) {
  const AttentionCase at{.sizes = {2, 4, 64, 96, 16, 16}};
  const auto kernel = Make({.least_work = 1}, at);
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  // 256 bytes more, so that it can begin at a multiple of 256.
  EXPECT_EQ((*kernel)->workspace_bytes(), 2 * 4 * 64 * 96 * 4 + 256);
}

TEST_F(ComposedAttentionTest, SmallOnesAndOtherTypesAreNotComposed) {
  const auto small = Make({});
  ASSERT_TRUE(small.ok()) << small.status();
  EXPECT_EQ(*small, nullptr);
  for (const DType type :
       {DType::kFloat64, DType::kFloat16, DType::kBFloat16}) {
    const auto other = Make({.least_work = 1}, {.type = type});
    ASSERT_TRUE(other.ok()) << other.status();
    EXPECT_EQ(*other, nullptr);
  }
}

TEST_F(ComposedAttentionTest, WhatDoesNotFitIsRefusedInWords) {
  const AttentionCase at{.sizes = {1, 2, 8, 16, 4, 4}};
  const auto large = Make({.least_work = 1, .most_scratch = 100}, at);
  EXPECT_EQ(large.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(large.status().message(), HasSubstr("one head take 512 bytes"));
  const auto many =
      Make({.least_work = 1, .most_scratch = 512, .most_parts = 1}, at);
  EXPECT_EQ(many.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(many.status().message(), HasSubstr("2 heads cannot be"));
}

TEST_F(ComposedAttentionTest, ALibraryWithoutAProductIsNamed) {
  graph_ = testing::AttentionGraph({});
  const Node& node = graph_.nodes()[0];
  const auto kernel = MakeComposedAttention(
      {graph_, node, std::vector<bool>(3, false), {}}, {},
      [](const CompileRequest&) -> portable::KernelOr { return nullptr; },
      {.least_work = 1});
  EXPECT_EQ(kernel.status().code(), absl::StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace gpupool::engine::cuda
