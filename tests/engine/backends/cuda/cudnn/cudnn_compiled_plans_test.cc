// Checks that the real cuDNN recognises the graphs whose kernels it compiles
// when a plan is made, and compiles them. The driver loads compiled kernels.
// NVIDIA's stub of the driver, which comes with the toolkit, is enough to reach
// the loading. Runs in a separate process, since the stub stays loaded.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/match.h"
#include "engine/backends/cuda/cudnn/cudnn_attention.h"
#include "engine/backends/cuda/cudnn/cudnn_norm.h"
#include "engine/backends/cuda/driver/shared_library.h"
#include "engine/graph/builder.h"
#include "tests/engine/backends/cuda/cudnn/cudnn_plans_fixture.h"
#include "tests/engine/backends/portable/attention_cases.h"

namespace gpupool::engine::cuda {
namespace {

using ::gpupool::engine::testing::AttentionCase;
using ::testing::HasSubstr;

class CompiledPlansTest : public CudnnPlansTest {
 protected:
  void SetUp() override {
    // A later request for "libcuda.so.1" gets the library that is loaded under
    // that name.
    if (!SharedLibrary::Open("libcuda.so.1", "").ok() &&
        !SharedLibrary::Open("libcuda.so", GPUPOOL_CUDA_STUBS).ok()) {
      GTEST_SKIP() << "there is neither a driver nor NVIDIA's stub of it";
    }
    CudnnPlansTest::SetUp();
  }
  static bool Compiled(const portable::KernelOr& kernel) {
    if (kernel.ok()) return *kernel != nullptr;
    return absl::StrContains(kernel.status().message(), "cuLibraryLoadData");
  }
};

// Attention and its gradient on GPUs of both generations.
class CudnnAttentionPlansTest
    : public CompiledPlansTest,
      public ::testing::WithParamInterface<absl::string_view> {
 protected:
  void SetUp() override {
    CompiledPlansTest::SetUp();
    if (!IsSkipped()) Describe(GetParam());
  }
  // Makes node 0, the attention, or node 1, its gradient.
  portable::KernelOr Make(const AttentionCase& at, size_t node) {
    graph_ = testing::AttentionGraph(at);
    return MakeCudnnAttention(library_.get(), RequestFor(node), {});
  }
  void ExpectCompiled(const AttentionCase& at) {
    for (const size_t node : {0, 1}) {
      const auto kernel = Make(at, node);
      EXPECT_TRUE(Compiled(kernel))
          << at.Text() << ", node " << node << ": " << kernel.status();
    }
  }
  void ExpectRefused(const AttentionCase& at, size_t node,
                     const std::string& words) {
    const auto kernel = Make(at, node);
    EXPECT_EQ(kernel.status().code(), absl::StatusCode::kUnimplemented)
        << at.Text();
    EXPECT_THAT(kernel.status().message(), HasSubstr(words)) << at.Text();
  }
  static AttentionCase Large() {
    return {.sizes = {2, 12, 256, 256, 64, 64}, .type = DType::kBFloat16};
  }
};

TEST_P(CudnnAttentionPlansTest, EveryMaskIsRecognised) {
  AttentionCase at = Large();
  for (const char* mask :
       {"", "11TS", "B1TS", "1HTS", "BHTS", "B11S", "111S", "BH1S"}) {
    at.mask = mask;
    ExpectCompiled(at);
  }
  at.causal = true;
  for (const char* mask : {"", "11TS", "BHTS", "B11S"}) {
    at.mask = mask;
    ExpectCompiled(at);
  }
  at.type = DType::kFloat16;
  ExpectCompiled(at);
}

TEST_P(CudnnAttentionPlansTest, SoAreOtherSizes) {
  AttentionCase at = Large();
  at.mask = "B1TS";
  for (const testing::AttentionSizes& sizes :
       {testing::AttentionSizes{2, 4, 77, 77, 64, 64},
        testing::AttentionSizes{2, 4, 128, 100, 64, 64},
        testing::AttentionSizes{2, 4, 7, 1000, 128, 128},
        testing::AttentionSizes{2, 4, 256, 256, 40, 40},
        testing::AttentionSizes{2, 4, 256, 256, 64, 32}}) {
    at.sizes = sizes;
    ExpectCompiled(at);
  }
}

// The gradient of queries is then not a sum in any order.
TEST_P(CudnnAttentionPlansTest, SoAreDeterministicGradients) {
  options_.deterministic = true;
  AttentionCase at = Large();
  for (const char* mask : {"", "B1TS"}) {
    at.mask = mask;
    for (const bool causal : {false, true}) {
      at.causal = causal;
      ExpectCompiled(at);
    }
  }
}

TEST_P(CudnnAttentionPlansTest, WhatTheEnginesGetWrongIsRefusedInWords) {
  AttentionCase at = Large();
  at.mask = "B1TS";
  at.sizes.keys = 192;
  ExpectRefused(at, 1, "leave 64 when divided by 128; there are 192");
  at.causal = true;
  ExpectRefused(at, 0, "causal attention of 256 queries to 192 keys");
  at = Large();
  at.sizes.queries = 1;
  ExpectRefused(at, 1, "gradients of one query");
  at = Large();
  at.sizes.depth = 20;
  ExpectRefused(at, 0, "these have 20");
  at.sizes.depth = 264;
  ExpectRefused(at, 0, "at most 256; these have 264");
}

INSTANTIATE_TEST_SUITE_P(Devices, CudnnAttentionPlansTest,
                         ::testing::Values(kH200Description, kA100Description),
                         [](const auto& info) {
                           return info.index == 0 ? "H200" : "A100";
                         });

// Cases that only the newer generation supports.
class LargeHeadPlansTest : public CudnnAttentionPlansTest {};

TEST_P(LargeHeadPlansTest, GradientsNeedAnEngine) {
  AttentionCase at = Large();
  at.sizes.depth = at.sizes.width = 256;
  EXPECT_TRUE(Compiled(Make(at, 0)));
  if (GetParam() == kH200Description) {
    EXPECT_TRUE(Compiled(Make(at, 1)));
  } else {
    ExpectRefused(at, 1, "cuDNN has no engine that fits");
  }
}

TEST_P(LargeHeadPlansTest, SoDoGradientsWithAMaskThatRepeatsAlongKeys) {
  AttentionCase at = Large();
  at.mask = "BHT1";
  EXPECT_TRUE(Compiled(Make(at, 0)));
  if (GetParam() == kH200Description) {
    EXPECT_TRUE(Compiled(Make(at, 1)));
  } else {
    ExpectRefused(at, 1, "cuDNN has no engine that fits");
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, LargeHeadPlansTest,
                         ::testing::Values(kH200Description, kA100Description),
                         [](const auto& info) {
                           return info.index == 0 ? "H200" : "A100";
                         });

// A planner asks for the kernels' size. Nothing is compiled or loaded.
TEST_F(CompiledPlansTest, AttentionIsSizedWithoutBeingCompiled) {
  const auto planner = CudnnLibrary::ForPlanning(
      library_->functions(), kH200Description, "H200", &cache_);
  ASSERT_TRUE(planner.ok()) << planner.status();
  GraphBuilder builder(&graph_);
  const TensorType half{DType::kBFloat16, {2, 12, 256, 64}};
  const ValueId q = *builder.Input("q", half), dy = *builder.Input("dy", half);
  const AttentionAttributes attention{0.125, true, true};
  const auto y = builder.Emit(Op::kAttention, {q, q, q}, attention);
  ASSERT_TRUE(y.ok()) << y.status();
  ASSERT_TRUE(
      builder
          .Emit(Op::kAttentionGrad, {dy, q, q, q, (*y)[0], (*y)[1]}, attention)
          .ok());
  for (size_t node = 0; node < 2; ++node) {
    const auto kernel =
        MakeCudnnAttention(planner->get(), RequestFor(node), {});
    ASSERT_TRUE(kernel.ok()) << node << ": " << kernel.status();
    ASSERT_NE(*kernel, nullptr);
    EXPECT_GT((*kernel)->workspace_bytes(), 0u);
    EXPECT_TRUE(absl::IsFailedPrecondition((*kernel)->Run()));
  }
}

struct NormCase {
  DType type;
  Shape shape;
  Layout layout = Layout::kRowMajor;
};

class CudnnNormPlansTest : public CompiledPlansTest {
 protected:
  // Builds node 0, the training op, and node 1, its gradient.
  void Build(const NormCase& at, DType side) {
    graph_ = Graph();
    GraphBuilder builder(&graph_);
    const TensorType image{at.type, at.shape};
    const TensorType channel{side, {at.shape[1]}};
    const ValueId x = *builder.Input("x", image);
    const ValueId gamma = *builder.Input("gamma", channel);
    const ValueId beta = *builder.Input("beta", channel);
    const ValueId dy = *builder.Input("dy", image);
    const auto y = builder.Emit(Op::kBatchNormTraining, {x, gamma, beta},
                                NormAttributes{});
    ASSERT_TRUE(y.ok()) << y.status();
    ASSERT_TRUE(builder
                    .Emit(Op::kBatchNormTrainingGrad,
                          {dy, x, gamma, (*y)[1], (*y)[2]}, NormAttributes{})
                    .ok());
    for (size_t i = 0; i < graph_.values().size(); ++i) {
      Value& value = graph_.mutable_value(ValueId{static_cast<int32_t>(i)});
      if (value.shape.rank() == 4) value.layout = at.layout;
    }
  }
  portable::KernelOr Norm(size_t node) {
    return MakeCudnnNorm(library_.get(), RequestFor(node), {});
  }
};

TEST_F(CudnnNormPlansTest, EveryTypeAndLayoutIsCompiled) {
  for (const DType type :
       {DType::kFloat32, DType::kBFloat16, DType::kFloat16}) {
    for (const Layout layout : {Layout::kRowMajor, Layout::kChannelsLast}) {
      Build({type, {32, 64, 28, 28}, layout}, DType::kFloat32);
      options_.deterministic = layout == Layout::kRowMajor;
      for (const size_t node : {0, 1}) {
        const auto kernel = Norm(node);
        EXPECT_TRUE(Compiled(kernel))
            << DTypeName(type) << " " << node << ": " << kernel.status();
      }
    }
  }
}

TEST_F(CudnnNormPlansTest, TheyAreSizedWithoutBeingCompiled) {
  const auto planner = CudnnLibrary::ForPlanning(
      library_->functions(), kH200Description, "H200", &cache_);
  ASSERT_TRUE(planner.ok()) << planner.status();
  Build({DType::kBFloat16, {32, 64, 28, 28}, Layout::kChannelsLast},
        DType::kFloat32);
  for (const size_t node : {0, 1}) {
    const auto kernel = MakeCudnnNorm(planner->get(), RequestFor(node), {});
    ASSERT_TRUE(kernel.ok()) << node << ": " << kernel.status();
    ASSERT_NE(*kernel, nullptr);
    EXPECT_GT((*kernel)->workspace_bytes(), 0u);
  }
}

TEST_F(CudnnNormPlansTest, SoAreOtherRanks) {
  for (const NormCase& at :
       {NormCase{DType::kFloat32, {64, 100}},
        NormCase{DType::kFloat32, {4, 12, 30}},
        NormCase{DType::kFloat32, {2, 8, 4, 5, 6}},
        NormCase{DType::kBFloat16, {5, 16, 7, 9}, Layout::kChannelsLast}}) {
    Build(at, DType::kFloat32);
    for (const size_t node : {0, 1}) {
      const auto kernel = Norm(node);
      EXPECT_TRUE(Compiled(kernel))
          << at.shape.ToString() << " " << node << ": " << kernel.status();
    }
  }
}

// No engine supports them, so the portable kernels run.
TEST_F(CudnnNormPlansTest, OddChannelsAreRefused) {
  Build({DType::kFloat32, {5, 3, 7, 9}}, DType::kFloat32);
  for (const size_t node : {0, 1}) {
    EXPECT_EQ(Norm(node).status().code(), absl::StatusCode::kUnimplemented);
  }
}

TEST_F(CudnnNormPlansTest, OtherStatisticsStayPortable) {
  for (const DType type : {DType::kFloat64, DType::kFloat16}) {
    Build({type, {4, 8, 6, 6}}, type);
    for (const size_t node : {0, 1}) {
      const auto kernel = Norm(node);
      ASSERT_TRUE(kernel.ok()) << kernel.status();
      EXPECT_EQ(*kernel, nullptr);
    }
  }
}

}  // namespace
}  // namespace gpupool::engine::cuda
