// Checks that a planner without a GPU knows the bytes that the real libraries'
// kernels take. Skipped if the libraries are missing.
#include "engine/backends/cuda/planning_backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "engine/backends/cuda/cublaslt/cublaslt_functions.h"
#include "engine/backends/cuda/cublaslt/matmul_problem.h"
#include "engine/backends/cuda/cudnn/cudnn_convolution.h"
#include "engine/backends/cuda/driver/device_limits.h"
#include "engine/backends/cuda/kernels/scratch_notes.h"
#include "engine/backends/portable/launch/kernel_makers.h"
#include "engine/graph/builder.h"
#include "tests/engine/backends/cuda/cudnn/cudnn_plans_fixture.h"
#include "tests/engine/scratch_folder.h"

namespace gpupool::engine::cuda {
namespace {

constexpr uint64_t kMostProductScratch = (uint64_t{32} << 20) + 256;

const DeviceFacts kFacts{.name = "NVIDIA H200",
                         .compute_capability = "9.0",
                         .multiprocessors = 132,
                         .threads_per_multiprocessor = 2048,
                         .total_bytes = 150000000000,
                         .properties = std::string(kH200Description)};

class PlanningBackendTest : public CudnnPlansTest {
 protected:
  void SetUp() override {
    CudnnPlansTest::SetUp();
    if (IsSkipped()) return;
    Plan(GPUPOOL_CUDA_LIBRARIES);
  }
  void Plan(const std::string& folders) {
    auto backend = MakePlanningBackend(
        kFacts,
        {.vendor_library_dirs = folders, .plan_cache_dir = folder_.path()});
    ASSERT_TRUE(backend.ok()) << backend.status();
    backend_ = *std::move(backend);
  }
  std::unique_ptr<Kernel> Planned(size_t node) {
    auto kernel = backend_->Compile(RequestFor(node));
    EXPECT_TRUE(kernel.ok()) << kernel.status();
    return kernel.ok() ? *std::move(kernel) : nullptr;
  }
  void AddProduct() {
    GraphBuilder builder(&graph_);
    ASSERT_TRUE(builder
                    .Emit(Op::kMatMul,
                          {*builder.Input("a", {DType::kBFloat16, {512, 256}}),
                           *builder.Input("b", {DType::kBFloat16, {256, 64}})},
                          MatMulAttributes{})
                    .ok());
  }
  std::string ProductKey() const {
    const auto functions = FindCublasLt(GPUPOOL_CUDA_LIBRARIES);
    EXPECT_TRUE(functions.ok()) << functions.status();
    return absl::StrCat("cublaslt ", CublasLtVersion(*functions), " on ",
                        PlanDevice(kFacts), ": ",
                        DescribeMatmul(RequestFor(0))->Text());
  }

  const ScratchFolder folder_;
  std::unique_ptr<DeviceBackend> backend_;
};

struct Image {
  DType type;
  Layout layout;
  Shape shape;
  int64_t filters;
};

class PlannedConvolutionTest : public PlanningBackendTest,
                               public ::testing::WithParamInterface<Image> {
 protected:
  void Build(bool epilogue) {
    graph_ = Graph();
    const auto& [type, layout, shape, filters] = GetParam();
    GraphBuilder builder(&graph_);
    Conv2dAttributes conv;
    conv.padding = Padding(1, 1);
    const Shape weights{filters, shape[1], 3, 3};
    const ValueId x = *builder.Input("x", {type, shape});
    const ValueId w = *builder.Input("w", {type, weights});
    std::vector<ValueId> inputs = {x, w};
    if (epilogue) {
      conv.epilogue.bias = true;
      conv.epilogue.activation = Activation::kRelu;
      inputs.push_back(*builder.Input("b", {type, {filters}}));
    }
    const auto y = builder.Emit(Op::kConv2d, inputs, conv);
    ASSERT_TRUE(y.ok()) << y.status();
    const ValueId dy =
        *builder.Input("dy", {type, graph_.value((*y)[0]).shape});
    Conv2dGradAttributes grad{conv, shape, false};
    ASSERT_TRUE(builder.Emit(Op::kConv2dInputGrad, {dy, w}, grad).ok());
    grad.result = weights;
    ASSERT_TRUE(builder.Emit(Op::kConv2dWeightGrad, {dy, x}, grad).ok());
    for (size_t i = 0; i < graph_.values().size(); ++i) {
      Value& value = graph_.mutable_value(ValueId{static_cast<int32_t>(i)});
      if (value.shape.rank() == 4 && value.shape != weights) {
        value.layout = layout;
      }
    }
  }
};

// The plans of the fixture's library are built for the same description.
TEST_P(PlannedConvolutionTest, WorkspacesAreThoseOfThePlansThatAreBuilt) {
  for (const bool epilogue : {false, true}) {
    for (const bool measured : {false, true}) {
      for (const bool deterministic : {false, true}) {
        Build(epilogue);
        options_.benchmark = measured;
        options_.deterministic = deterministic;
        for (size_t node = 0; node < graph_.nodes().size(); ++node) {
          const auto real =
              MakeCudnnConvolution(library_.get(), RequestFor(node), {});
          ASSERT_TRUE(real.ok()) << real.status();
          const auto planned = Planned(node);
          ASSERT_NE(planned, nullptr);
          const uint64_t bytes = (*real)->workspace_bytes();
          if (!measured) {
            EXPECT_EQ(planned->workspace_bytes(), bytes) << node;
          }
          // The real library takes the plan that was kept just before.
          EXPECT_GE(planned->workspace_bytes(), bytes) << node;
          EXPECT_TRUE(absl::IsFailedPrecondition(planned->Run()));
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Images, PlannedConvolutionTest,
    ::testing::Values(
        Image{DType::kBFloat16, Layout::kChannelsLast, {32, 64, 28, 28}, 64},
        Image{DType::kFloat16, Layout::kChannelsLast, {8, 128, 14, 14}, 256},
        Image{DType::kFloat32, Layout::kRowMajor, {32, 64, 28, 28}, 64},
        Image{DType::kFloat32, Layout::kChannelsLast, {4, 3, 64, 64}, 32},
        Image{DType::kBFloat16, Layout::kRowMajor, {2, 16, 9, 7}, 24}),
    [](const auto& info) { return absl::StrCat("Case", info.index); });

TEST_F(PlanningBackendTest, AProductCountsAsTheMostUntilTheOwnerNotesIt) {
  AddProduct();
  EXPECT_EQ(Planned(0)->workspace_bytes(), kMostProductScratch);
  PlanCache owner(folder_.path());
  NoteScratch(owner, ProductKey(), 1 << 20);
  EXPECT_EQ(Planned(0)->workspace_bytes(), (uint64_t{1} << 20) + 256);
  // With other options the library may choose another algorithm.
  options_.deterministic = true;
  EXPECT_EQ(Planned(0)->workspace_bytes(), kMostProductScratch);
  NoteScratch(owner, absl::StrCat(ProductKey(), " deterministic"), 0);
  EXPECT_EQ(Planned(0)->workspace_bytes(), 0u);
}

TEST_F(PlanningBackendTest, LongSumsAreCutForTheDescribedDevice) {
  GraphBuilder builder(&graph_);
  ReduceAttributes sum;
  sum.axes = {0};
  ASSERT_TRUE(builder
                  .Emit(Op::kReduce,
                        {*builder.Input("x", {DType::kFloat32, {100000, 64}})},
                        sum)
                  .ok());
  const auto planned = Planned(0);
  ASSERT_NE(planned, nullptr);
  portable::PortableContext context;
  context.resident_threads = 132 * 2048;
  const auto real = portable::MakePortableKernel(RequestFor(0), context);
  ASSERT_TRUE(real.ok()) << real.status();
  EXPECT_GT(planned->workspace_bytes(), 0u);
  EXPECT_EQ(planned->workspace_bytes(), (*real)->workspace_bytes());
}

TEST_F(PlanningBackendTest, BatchesAreCopiedBesideItsWork) {
  EXPECT_NE(backend_->transfer().beside(), nullptr);
  EXPECT_FALSE(backend_->transfer().host_visible());
}

TEST(PlanningFactsTest, FactsThatSayTooLittleAreRefused) {
  for (int missing = 0; missing < 3; ++missing) {
    DeviceFacts facts = kFacts;
    if (missing == 0) facts.multiprocessors = 0;
    if (missing == 1) facts.threads_per_multiprocessor = 0;
    if (missing == 2) facts.properties.clear();
    const auto backend = MakePlanningBackend(facts, {});
    EXPECT_TRUE(absl::IsFailedPrecondition(backend.status()));
    EXPECT_THAT(std::string(backend.status().message()),
                ::testing::HasSubstr("NVIDIA H200"));
  }
}

TEST(PlanningFactsTest, ADescriptionThatCudnnRefusesIsSaid) {
  if (!FindCudnn(GPUPOOL_CUDA_LIBRARIES).ok()) GTEST_SKIP();
  DeviceFacts facts = kFacts;
  facts.properties = "{}";
  const auto backend = MakePlanningBackend(
      facts, {.vendor_library_dirs = GPUPOOL_CUDA_LIBRARIES});
  EXPECT_TRUE(absl::IsFailedPrecondition(backend.status()));
  EXPECT_THAT(std::string(backend.status().message()),
              ::testing::HasSubstr("cannot plan for a GPU that is not open"));
}

}  // namespace
}  // namespace gpupool::engine::cuda
