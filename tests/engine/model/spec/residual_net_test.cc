#include "engine/model/spec/residual_net.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "engine/model/model_source.h"
#include "tests/engine/testing/graph_testing.h"

namespace gpupool::engine {
namespace {

using ::testing::HasSubstr;
using namespace testing;  // NOLINT: the fixtures of this tree

ModelGraph BuildResidual(const std::string& text) {
  auto model = (*ModelSource::Open(ModelFromText(text), ""))->Build({});
  EXPECT_TRUE(model.ok()) << text << ": " << model.status();
  return model.ok() ? *std::move(model) : ModelGraph();
}

const PersistentSpec* PersistentIn(const ModelGraph& model,
                                   const std::string& name) {
  const auto found = std::find_if(
      model.persistents.begin(), model.persistents.end(),
      [&](const PersistentSpec& spec) { return spec.name == name; });
  return found == model.persistents.end() ? nullptr : &*found;
}

Shape OutputOf(const ModelGraph& model, const std::string& name) {
  for (const LayerInfo& layer : model.layers) {
    if (layer.name == name) return layer.output_shape;
  }
  ADD_FAILURE() << "no layer " << name;
  return {};
}

// torchvision's resnet50 has 320 tensors, 53 of which are num_batches_tracked.
TEST(ResidualNetTest, WeightsAreNamedAsInTorchvision) {
  const ModelGraph model = BuildResidual("named { resnet50 {} }");
  EXPECT_EQ(model.persistents.size(), 267u);
  const std::pair<std::string, Shape> weights[] = {
      {"conv1.weight", {64, 3, 7, 7}},
      {"bn1.running_var", {64}},
      {"layer1.0.conv1.weight", {64, 64, 1, 1}},
      {"layer1.0.conv2.weight", {64, 64, 3, 3}},
      {"layer1.0.conv3.weight", {256, 64, 1, 1}},
      {"layer1.0.downsample.0.weight", {256, 64, 1, 1}},
      {"layer1.0.downsample.1.bias", {256}},
      {"layer4.0.downsample.0.weight", {2048, 1024, 1, 1}},
      {"layer4.2.bn3.running_mean", {2048}},
      {"fc.weight", {1000, 2048}},
      {"fc.bias", {1000}}};
  for (const auto& [name, shape] : weights) {
    const PersistentSpec* spec = PersistentIn(model, name);
    ASSERT_NE(spec, nullptr) << name;
    EXPECT_EQ(spec->shape, shape) << name;
  }
  EXPECT_EQ(PersistentIn(model, "layer1.1.downsample.0.weight"), nullptr);
}

TEST(ResidualNetTest, TheShapesFollowTheImage) {
  const ModelGraph large = BuildResidual("named { resnet18 {} }");
  EXPECT_EQ(OutputOf(large, "maxpool"), (Shape{64, 56, 56}));
  EXPECT_EQ(OutputOf(large, "layer4.1.relu"), (Shape{512, 7, 7}));
  const ModelGraph small =
      BuildResidual("named { resnet18 {} } input_shape: [3, 64, 96]");
  EXPECT_EQ(OutputOf(small, "layer4.1.relu"), (Shape{512, 2, 3}));
  const ModelGraph stem =
      BuildResidual("named { resnet18 { small_stem: true width: 8 } }");
  EXPECT_EQ(stem.input_shape, (Shape{3, 32, 32}));
  EXPECT_EQ(OutputOf(stem, "layer1.0.relu"), (Shape{8, 32, 32}));
  EXPECT_EQ(OutputOf(stem, "layer4.1.relu"), (Shape{64, 4, 4}));
}

TEST(ResidualNetTest, TheStrideOfABottleneckIsInItsMiddle) {
  const ModelGraph model = BuildResidual("named { resnet50 {} }");
  EXPECT_EQ(OutputOf(model, "layer2.0.relu1"), (Shape{128, 56, 56}));
  EXPECT_EQ(OutputOf(model, "layer2.0.relu2"), (Shape{128, 28, 28}));
}

// As kaiming_normal_(mode="fan_out", nonlinearity="relu") and PyTorch's
// BatchNorm2d and Linear.
TEST(ResidualNetTest, WeightsBeginAsInTorchvision) {
  const ModelGraph model = BuildResidual("named { resnet18 {} }");
  const Initializer& stem = PersistentIn(model, "conv1.weight")->initializer;
  EXPECT_EQ(stem.kind, Initializer::Kind::kNormal);
  EXPECT_DOUBLE_EQ(stem.deviation, std::sqrt(2.0 / (64 * 7 * 7)));
  EXPECT_DOUBLE_EQ(PersistentIn(model, "layer2.0.downsample.0.weight")
                       ->initializer.deviation,
                   std::sqrt(2.0 / 128));
  EXPECT_EQ(PersistentIn(model, "bn1.weight")->initializer.value, 1);
  EXPECT_EQ(PersistentIn(model, "bn1.bias")->initializer.value, 0);
  const Initializer& end = PersistentIn(model, "fc.weight")->initializer;
  EXPECT_EQ(end.kind, Initializer::Kind::kUniform);
  EXPECT_DOUBLE_EQ(end.bound, 1 / std::sqrt(512.0));
}

TEST(ResidualNetTest, OptionsHaveLimits) {
  v1::ModelSpec spec;
  v1::ResNet options;
  options.set_width(4097);
  EXPECT_THAT(AddResidualNet(options, {}, spec).message(),
              HasSubstr("width is 4097; write 1 .. 4096"));
  options.set_width(0);
  options.set_classes(-2);
  EXPECT_THAT(AddResidualNet(options, {}, spec).message(),
              HasSubstr("classes is -2"));
}

}  // namespace
}  // namespace gpupool::engine
