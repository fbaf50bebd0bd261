#include "engine/model/layers/layer_weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "google/protobuf/text_format.h"
#include "gpupool/v1/model.pb.h"

namespace gpupool::engine {
namespace {

using ::testing::HasSubstr;

v1::Layer LayerFromText(const std::string& text) {
  v1::Layer layer;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &layer));
  return layer;
}

std::string InitialError(const std::string& text) {
  return std::string(CheckInitial(LayerFromText(text)).message());
}

TEST(LayerWeightsTest, AddsAValueAndListsIt) {
  Graph graph;
  GraphBuilder builder(&graph);
  std::vector<PersistentSpec> persistents;
  LayerWeights weights(&builder, &persistents);
  const auto id =
      weights.Add("a.weight", {2, 3}, MemoryClass::kWeight,
                  {.kind = Initializer::Kind::kConstant, .value = 4});
  ASSERT_TRUE(id.ok()) << id.status();
  EXPECT_EQ(graph.value(*id).shape, (Shape{2, 3}));
  EXPECT_EQ(graph.value(*id).kind, ValueKind::kPersistent);
  ASSERT_EQ(persistents.size(), 1u);
  EXPECT_EQ(persistents[0].name, "a.weight");
  EXPECT_EQ(persistents[0].initializer.value, 4);
  EXPECT_TRUE(persistents[0].is_parameter());
}

TEST(LayerWeightsTest, ProductsBeginAsInPyTorchUnlessToldOtherwise) {
  const Fans fans{.in = 16, .out = 8};
  v1::Layer layer = LayerFromText("dense { units: 8 }");
  EXPECT_EQ(InitialWeight(layer, fans).kind, Initializer::Kind::kUniform);
  EXPECT_DOUBLE_EQ(InitialWeight(layer, fans).bound, 0.25);
  EXPECT_DOUBLE_EQ(InitialBias(layer, fans).bound, 0.25);

  layer.set_initial_weight(v1::Layer::KAIMING_NORMAL);
  EXPECT_EQ(InitialWeight(layer, fans).kind, Initializer::Kind::kNormal);
  EXPECT_DOUBLE_EQ(InitialWeight(layer, fans).deviation, 0.5);
  EXPECT_DOUBLE_EQ(InitialBias(layer, fans).bound, 0.25);

  layer.set_initial_weight(v1::Layer::NORMAL);
  EXPECT_DOUBLE_EQ(InitialWeight(layer, fans).deviation, 0.02);
  EXPECT_EQ(InitialBias(layer, fans).kind, Initializer::Kind::kConstant);
  EXPECT_EQ(InitialBias(layer, fans).value, 0);
  layer.set_initial_deviation(0.5);
  EXPECT_DOUBLE_EQ(InitialWeight(layer, fans).deviation, 0.5);
}

TEST(LayerWeightsTest, ADeviationReplacesTheKindsOwn) {
  EXPECT_DOUBLE_EQ(InitialNormal(LayerFromText("embedding {}"), 1).deviation,
                   1);
  EXPECT_DOUBLE_EQ(
      InitialNormal(LayerFromText("embedding {} initial_deviation: 0"), 1)
          .deviation,
      0);
}

TEST(LayerWeightsTest, OnlyLayersWithSuchWeightsTakeADistribution) {
  for (const char* text :
       {"relu {}", "dense { units: 1 } initial_weight: NORMAL",
        "conv2d {} initial_weight: NORMAL initial_deviation: 0.1",
        "embedding {} initial_deviation: 0",
        "class_token {} initial_deviation: 1e-6",
        "positions {} initial_deviation: 2"}) {
    EXPECT_EQ(InitialError(text), "") << text;
  }
  for (const char* text : {"relu {} initial_weight: NORMAL",
                           "embedding {} initial_weight: NORMAL"}) {
    EXPECT_THAT(InitialError(text),
                HasSubstr("initial_weight is for dense and conv2d"));
  }
  for (const char* text : {"dense { units: 1 } initial_deviation: 1",
                           "dense { units: 1 } initial_weight: KAIMING_NORMAL "
                           "initial_deviation: 1",
                           "relu {} initial_deviation: 1"}) {
    EXPECT_THAT(InitialError(text),
                HasSubstr("initial_deviation is for layers with"))
        << text;
  }
  EXPECT_THAT(InitialError("dense { tied_to: 'wte' } initial_weight: NORMAL"),
              HasSubstr("tied_to takes that of 'wte'; leave it out"));
}

TEST(LayerWeightsTest, ADeviationIsAtLeast0AndFinite) {
  for (const char* number : {"-1", "nan", "inf", "1e+39"}) {
    EXPECT_THAT(
        InitialError(std::string("positions {} initial_deviation: ") + number),
        HasSubstr(std::string("initial_deviation ") + number))
        << number;
  }
}

}  // namespace
}  // namespace gpupool::engine
