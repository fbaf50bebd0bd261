#include "engine/model/spec/named_models.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/graph/verify.h"
#include "engine/model/model_source.h"
#include "tests/engine/testing/graph_testing.h"

namespace gpupool::engine {
namespace {

using ::testing::HasSubstr;
using namespace testing;  // NOLINT: the fixtures of this tree

absl::StatusOr<ModelGraph> BuildNamed(const std::string& text,
                                      bool training = false) {
  const auto source = ModelSource::Open(ModelFromText(text), "");
  if (!source.ok()) return source.status();
  return (*source)->Build({.batch = 2, .training = training});
}

std::string NamedError(const std::string& text) {
  const auto model = BuildNamed(text);
  EXPECT_EQ(model.status().code(), absl::StatusCode::kInvalidArgument) << text;
  return std::string(model.status().message());
}

struct NamedCase {
  std::string text;
  uint64_t parameters;
  Shape input, output;
};

// The ResNets have as many parameters as torchvision's models, and vit_tiny has
// as many as timm's vit_tiny_patch16_224. 61,706 is
// 6 (25 + 1) + 16 (6 25 + 1) + 120 (400 + 1) + 84 (120 + 1) + 10 (84 + 1).
// 834,304 is 128 (256 + 64) + 4 (12 128^2 + 13 128) + 2 128.
TEST(NamedModelsTest, EachHasItsParametersAndItsShapes) {
  const NamedCase cases[] = {
      {"named { lenet5 {} }", 61'706, {1, 28, 28}, {10}},
      {"named { lenet5 {} } input_shape: [1, 32, 32]",
       61'706,
       {1, 32, 32},
       {10}},
      {"named { mlp {} }", 235'146, {784}, {10}},
      {"named { mlp { classes: 3 hidden: 5 } } input_shape: [2, 2]",
       5 * 5 + 3 * 6,
       {2, 2},
       {3}},
      {"named { resnet18 {} }", 11'689'512, {3, 224, 224}, {1000}},
      {"named { resnet34 {} }", 21'797'672, {3, 224, 224}, {1000}},
      {"named { resnet50 {} }", 25'557'032, {3, 224, 224}, {1000}},
      {"named { resnet20_cifar {} }", 272'474, {3, 32, 32}, {10}},
      {"named { resnet20_cifar { classes: 7 } } input_shape: [3, 48, 40]",
       272'279,
       {3, 48, 40},
       {7}},
      {"named { vit_tiny {} }", 5'717'416, {3, 224, 224}, {1000}},
      {"named { gpt_tiny {} }", 834'304, {64}, {64, 256}},
  };
  for (const NamedCase& one : cases) {
    for (const bool training : {false, true}) {
      const auto model = BuildNamed(one.text, training);
      ASSERT_TRUE(model.ok()) << one.text << ": " << model.status();
      EXPECT_TRUE(Verify(model->graph).ok()) << one.text;
      EXPECT_EQ(model->parameters(), one.parameters) << one.text;
      EXPECT_EQ(model->input_shape, one.input) << one.text;
      EXPECT_EQ(model->output_shape, one.output) << one.text;
    }
  }
}

TEST(NamedModelsTest, OtherSpecsStayAsTheyAre) {
  const v1::ModelSpec spec = ModelFromText("input_shape: 4 layers { relu {} }");
  const auto same = ExpandNamed(spec);
  ASSERT_TRUE(same.ok()) << same.status();
  EXPECT_EQ(same->SerializeAsString(), spec.SerializeAsString());
}

TEST(NamedModelsTest, WeightsStay) {
  const auto spec =
      ExpandNamed(ModelFromText("named { mlp {} } weights { bytes: 9 }"));
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_FALSE(spec->has_named());
  EXPECT_EQ(spec->weights().bytes(), 9u);
}

TEST(NamedModelsTest, APerceptronDropsAfterEachHiddenLayer) {
  const auto spec =
      ExpandNamed(ModelFromText("named { mlp { hidden: [4, 3] dropout: 0.2 } } "
                                "input_shape: [2, 3]"));
  ASSERT_TRUE(spec.ok()) << spec.status();
  std::vector<std::string> names;
  for (const v1::Layer& layer : spec->layers()) names.push_back(layer.name());
  EXPECT_THAT(names,
              ::testing::ElementsAre("flatten", "fc1", "relu1", "dropout1",
                                     "fc2", "relu2", "dropout2", "fc3"));
  EXPECT_EQ(spec->layers(3).dropout().probability(), 0.2);
}

TEST(NamedModelsTest, WrongOptionsAreRefusedByName) {
  EXPECT_THAT(NamedError("named {}"), HasSubstr("no name that this server"));
  EXPECT_THAT(NamedError("named { lenet5 {} } layers { relu {} }"),
              HasSubstr("has both"));
  EXPECT_THAT(NamedError("named { lenet5 {} } onnx {}"), HasSubstr("has both"));
  EXPECT_THAT(NamedError("named { lenet5 { classes: -1 } }"),
              HasSubstr("named lenet5: classes is -1"));
  EXPECT_THAT(NamedError("named { lenet5 {} } input_shape: 784"),
              HasSubstr("named lenet5: input_shape has 1 dimensions"));
  EXPECT_THAT(NamedError("named { mlp { hidden: 0 } }"),
              HasSubstr("layer 'fc1': units is 0"));
  EXPECT_THAT(NamedError("named { mlp { dropout: 1 } }"),
              HasSubstr("layer 'dropout1': probability 1"));
  std::string many = "named { mlp { ";
  for (int i = 0; i < 101; ++i) many += "hidden: 1 ";
  EXPECT_THAT(NamedError(many + "} }"), HasSubstr("hidden has 101 layers"));
  EXPECT_THAT(NamedError("named { resnet18 {} } input_shape: 784"),
              HasSubstr("layer 'conv1': needs an image"));
}

}  // namespace
}  // namespace gpupool::engine
