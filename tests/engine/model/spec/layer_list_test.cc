#include "engine/model/spec/layer_list.h"

#include <gtest/gtest.h>

namespace gpupool::engine {
namespace {

TEST(LayerListTest, TheNewestLayerOrTheInputIsLast) {
  v1::ModelSpec spec;
  LayerList layers(spec);
  EXPECT_EQ(layers.last(), "input");
  layers.Add("a")->mutable_relu();
  EXPECT_EQ(layers.last(), "a");
  EXPECT_TRUE(spec.layers(0).has_relu());
}

TEST(LayerListTest, AConvolutionHasNoBiasAndNormalWeights) {
  v1::ModelSpec spec;
  LayerList layers(spec);
  layers.Convolve("c", {.filters = 8, .kernel = 3, .stride = 2, .padding = 1})
      ->set_input("input");
  const v1::Layer& layer = spec.layers(0);
  EXPECT_EQ(layer.name(), "c");
  EXPECT_EQ(layer.input(), "input");
  EXPECT_EQ(layer.initial_weight(), v1::Layer::KAIMING_NORMAL);
  EXPECT_EQ(layer.conv2d().filters(), 8);
  EXPECT_EQ(layer.conv2d().kernel(0), 3);
  EXPECT_EQ(layer.conv2d().stride(0), 2);
  EXPECT_EQ(layer.conv2d().padding(0), 1);
  EXPECT_TRUE(layer.conv2d().has_bias());
  EXPECT_FALSE(layer.conv2d().bias());
}

}  // namespace
}  // namespace gpupool::engine
