// Checks that the real cuDNN takes the graphs that the makers build: it is
// asked for plans for a described H200. Skipped if cuDNN is missing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "engine/backends/cuda/cudnn/cudnn_attention.h"
#include "engine/backends/cuda/cudnn/cudnn_convolution.h"
#include "engine/graph/builder.h"
#include "tests/engine/backends/cuda/cudnn/cudnn_plans_fixture.h"

namespace gpupool::engine::cuda {
namespace {

class CudnnConvolutionPlans : public CudnnPlansTest {
 protected:
  portable::KernelOr Convolution(size_t node = 0) {
    return MakeCudnnConvolution(library_.get(), RequestFor(node), {});
  }
};

struct ConvolutionCase {
  DType type;
  bool channels_last;
  bool tensor_float32;
};

class CudnnConvolutionPlansTest
    : public CudnnConvolutionPlans,
      public ::testing::WithParamInterface<ConvolutionCase> {
 protected:
  void Build(const Conv2dAttributes& conv) {
    GraphBuilder builder(&graph_);
    const DType type = GetParam().type;
    const TensorType image{type, {32, 64, 28, 28}};
    std::vector<ValueId> inputs = {*builder.Input("x", image),
                                   *builder.Input("w", {type, {64, 64, 3, 3}})};
    if (conv.epilogue.bias) inputs.push_back(*builder.Input("b", {type, {64}}));
    if (conv.epilogue.residual) inputs.push_back(*builder.Input("r", image));
    const auto y = builder.Emit(Op::kConv2d, inputs, conv);
    ASSERT_TRUE(y.ok()) << y.status();
    const ValueId dy = *builder.Input("dy", image);
    Conv2dGradAttributes grad{conv, image.shape, false};
    ASSERT_TRUE(builder.Emit(Op::kConv2dInputGrad, {dy, inputs[1]}, grad).ok());
    grad.result = Shape{64, 64, 3, 3};
    grad.bias_grad = true;
    ASSERT_TRUE(
        builder.Emit(Op::kConv2dWeightGrad, {dy, inputs[0]}, grad).ok());
    if (GetParam().channels_last) UseChannelsLast();
    options_.tensor_float32 = GetParam().tensor_float32;
  }
  void UseChannelsLast() {
    for (size_t i = 0; i < graph_.values().size(); ++i) {
      Value& value = graph_.mutable_value(ValueId{static_cast<int32_t>(i)});
      const bool weights =
          value.name == "w" || value.shape == Shape{64, 64, 3, 3};
      if (value.shape.rank() == 4 && !weights) {
        value.layout = Layout::kChannelsLast;
      }
    }
  }
  static Conv2dAttributes Same() {
    Conv2dAttributes conv;
    conv.padding = Padding(1, 1);
    return conv;
  }
};

TEST_P(CudnnConvolutionPlansTest, TheProductAndBothGradientsHavePlans) {
  Build(Same());
  for (size_t node = 0; node < 3; ++node) {
    const auto kernel = Convolution(node);
    ASSERT_TRUE(kernel.ok()) << node << ": " << kernel.status();
    EXPECT_NE(*kernel, nullptr);
  }
}

TEST_P(CudnnConvolutionPlansTest, SoHaveDeterministicGradients) {
  Build(Same());
  options_.deterministic = true;
  for (size_t node = 1; node < 3; ++node) {
    const auto kernel = Convolution(node);
    EXPECT_TRUE(kernel.ok()) << node << ": " << kernel.status();
  }
}

TEST_P(CudnnConvolutionPlansTest, SoHaveTheEpilogues) {
  for (const bool residual : {false, true}) {
    for (const Activation activation :
         {Activation::kNone, Activation::kRelu, Activation::kGelu}) {
      graph_ = Graph();
      Conv2dAttributes conv = Same();
      conv.epilogue.bias = true;
      conv.epilogue.residual = residual;
      conv.epilogue.activation = activation;
      Build(conv);
      const auto kernel = Convolution();
      EXPECT_TRUE(kernel.ok()) << kernel.status();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Types, CudnnConvolutionPlansTest,
    ::testing::Values(ConvolutionCase{DType::kFloat32, false, false},
                      ConvolutionCase{DType::kFloat32, true, false},
                      ConvolutionCase{DType::kFloat32, true, true},
                      ConvolutionCase{DType::kBFloat16, false, false},
                      ConvolutionCase{DType::kBFloat16, true, false},
                      ConvolutionCase{DType::kFloat16, true, false}),
    [](const auto& info) {
      return absl::StrCat(DTypeName(info.param.type),
                          info.param.channels_last ? "ChannelsLast" : "",
                          info.param.tensor_float32 ? "Tf32" : "");
    });

TEST_F(CudnnConvolutionPlans, GroupsStridesAndVolumesHavePlans) {
  GraphBuilder builder(&graph_);
  Conv2dAttributes depthwise;
  depthwise.groups = 32;
  depthwise.stride = Extent{2, 2};
  depthwise.padding = Padding(Extent{0, 0}, Extent{1, 1});
  ASSERT_TRUE(
      builder
          .Emit(Op::kConv2d,
                {*builder.Input("x", {DType::kFloat32, {8, 32, 28, 28}}),
                 *builder.Input("w", {DType::kFloat32, {32, 1, 3, 3}})},
                depthwise)
          .ok());
  Conv2dAttributes volume;
  volume.stride = volume.dilation = Extent{1, 1, 1};
  volume.padding = Padding(Extent{1, 1, 1});
  ASSERT_TRUE(
      builder
          .Emit(Op::kConv2d,
                {*builder.Input("v", {DType::kFloat32, {2, 8, 10, 10, 10}}),
                 *builder.Input("k", {DType::kFloat32, {16, 8, 3, 3, 3}})},
                volume)
          .ok());
  for (size_t node = 0; node < 2; ++node) {
    const auto kernel = Convolution(node);
    EXPECT_TRUE(kernel.ok()) << node << ": " << kernel.status();
  }
}

TEST_F(CudnnConvolutionPlans, AKeptPlanIsTakenBack) {
  GraphBuilder builder(&graph_);
  ASSERT_TRUE(
      builder
          .Emit(Op::kConv2d,
                {*builder.Input("x", {DType::kFloat32, {8, 32, 28, 28}}),
                 *builder.Input("w", {DType::kFloat32, {32, 32, 3, 3}})},
                Conv2dAttributes{})
          .ok());
  ASSERT_TRUE(Convolution().ok());
  CudnnGraph graph(&library_->functions());
  const auto& values = graph_.values();
  const CudnnGraph::Id x = graph.AddValue(values[0]);
  const CudnnGraph::Id w = graph.AddValue(values[1]);
  const CudnnGraph::Id y = graph.AddValue(values[2]);
  graph.Convolve(x, w, y, {{0, 0}, {0, 0}, {1, 1}, {1, 1}});
  CudnnPlanOptions options;
  options.float32 = true;
  const std::string key = PlanKey(*library_, graph, options);
  ASSERT_TRUE(cache_.Find(key).ok());
  {
    const auto first = RestorePlan(*library_, key);
    const auto second = RestorePlan(*library_, key);
    ASSERT_TRUE(first.ok()) << first.status();
    ASSERT_TRUE(second.ok()) << second.status();
    // Identical layers share the plan as long as one of them exists.
    EXPECT_EQ(first->descriptor(), second->descriptor());
    EXPECT_EQ(first->workspace_bytes(), second->workspace_bytes());
  }
  cache_.Put(key, "no plan");
  EXPECT_FALSE(RestorePlan(*library_, key).ok());
  EXPECT_FALSE(cache_.Find(key).ok());
}

TEST_F(CudnnPlansTest, AttentionInFloat32IsNotAskedFor) {
  GraphBuilder builder(&graph_);
  const ValueId x = *builder.Input("x", {DType::kFloat32, {2, 4, 32, 64}});
  ASSERT_TRUE(
      builder.Emit(Op::kAttention, {x, x, x}, AttentionAttributes{}).ok());
  const auto kernel = MakeCudnnAttention(library_.get(), RequestFor(0), {});
  ASSERT_TRUE(kernel.ok()) << kernel.status();
  EXPECT_EQ(*kernel, nullptr);
}

}  // namespace
}  // namespace gpupool::engine::cuda
