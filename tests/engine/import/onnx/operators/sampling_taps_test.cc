#include "engine/import/onnx/operators/sampling_taps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/engine/import/onnx/operators/lowering_case.h"

namespace gpupool::engine::onnx_import {
namespace {

using ::testing::ElementsAre;

// Returns the line 1, 10, 100, read at a coordinate from -1 to 1.
std::vector<double> Read(const std::string& attributes, double at) {
  const auto y =
      RunLowering({.opset = 22,
                   .graph = "(float[1, 1, 3] x, float[1, 1, 1] g) => "
                            "(float[1, 1, 1] y) { y = GridSample<" +
                            attributes + ">(x, g) }",
                   .inputs = {{"x", Floats({1, 1, 3}, {1, 10, 100})},
                              {"g", Floats({1, 1, 1}, {at})}}});
  EXPECT_TRUE(y.ok()) << y.status();
  return y.ok() ? (*y)[0].numbers : std::vector<double>();
}

TEST(SamplingTapsTest, EachRuleWeighsTheCellsAround) {
  EXPECT_THAT(Read("align_corners = 1, mode = \"nearest\"", 0.4),
              ElementsAre(10));
  EXPECT_THAT(Read("align_corners = 1, mode = \"linear\"", 0.5),
              ElementsAre(55));
  // Weights of the middle: -3/32, 19/32, 19/32, -3/32.
  EXPECT_THAT(
      Read("align_corners = 1, mode = \"cubic\", padding_mode = \"border\"",
           0.5),
      ElementsAre((-3 * 1 + 19 * 10 + 19 * 100 - 3 * 100) / 32.0));
}

TEST(SamplingTapsTest, AnImageCountsItsCells) {
  SampledImage image;
  image.sizes = {2, 3, 4};
  EXPECT_EQ(image.cells(), 24);
}

}  // namespace
}  // namespace gpupool::engine::onnx_import
