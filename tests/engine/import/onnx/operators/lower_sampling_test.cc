#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/engine/import/onnx/operators/lowering_case.h"

namespace gpupool::engine::onnx_import {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<double> Sample(const std::string& attributes, double at) {
  const auto y =
      RunLowering({.opset = 16,
                   .graph = "(float[1, 1, 1, 2] x, float[1, 1, 1, 2] g) => "
                            "(float[1, 1, 1, 1] y) { y = GridSample<" +
                            attributes + ">(x, g) }",
                   .inputs = {{"x", Floats({1, 1, 1, 2}, {1, 3})},
                              {"g", Floats({1, 1, 1, 2}, {at, 0})}}});
  EXPECT_TRUE(y.ok()) << y.status();
  return y.ok() ? (*y)[0].numbers : std::vector<double>();
}

TEST(LowerSamplingTest, CellsOutsideFollowThePadding) {
  EXPECT_THAT(Sample("align_corners = 0", 0), ElementsAre(2));
  // Half a cell beyond the last one.
  EXPECT_THAT(Sample("align_corners = 0", 1), ElementsAre(1.5));
  EXPECT_THAT(Sample("padding_mode = \"border\"", 1), ElementsAre(3));
  EXPECT_THAT(Sample("padding_mode = \"reflection\"", 1), ElementsAre(3));
  EXPECT_THAT(Sample("padding_mode = \"zeros\", mode = \"nearest\"", 5),
              ElementsAre(0));
}

// A sample in the middle of four cells weighs each with a quarter.
TEST(LowerSamplingTest, RoiAlignTakesTheLargestWeightedCell) {
  const auto y = RunLowering(
      {.opset = 16,
       .graph = "(float[1, 1, 2, 2] x, float[1, 4] r, int64[1] b) => "
                "(float[1, 1, 1, 1] y) "
                "{ y = RoiAlign<mode = \"max\", sampling_ratio = 1>(x, r, b) }",
       .inputs = {{"x", Floats({1, 1, 2, 2}, {1, 2, 3, 8})},
                  {"r", Floats({1, 4}, {0, 0, 2, 2})},
                  {"b", Ints({1}, {0})}}});
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_THAT((*y)[0].numbers, ElementsAre(2));
}

TEST(LowerSamplingTest, RoiAlignOfAWholeImageIsItsMean) {
  HostTensor batch = Ints({1}, {0});
  const auto y = RunLowering(
      {.opset = 16,
       .graph = "(float[1, 1, 2, 2] x, float[1, 4] r, int64[1] b) => "
                "(float[1, 1, 1, 1] y) "
                "{ y = RoiAlign<sampling_ratio = 2>(x, r, b) }",
       .inputs = {{"x", Floats({1, 1, 2, 2}, {1, 2, 3, 6})},
                  {"r", Floats({1, 4}, {0, 0, 2, 2})},
                  {"b", batch}}});
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_THAT((*y)[0].numbers, ElementsAre(3));
}

TEST(LowerSamplingTest, AdaptiveSamplingAsksForTheRegions) {
  const auto y = ImportLowering(
      {.opset = 16,
       .graph = "(float[1, 1, 2, 2] x, float[1, 4] r, int64[1] b) => "
                "(float[1, 1, 1, 1] y) { y = RoiAlign(x, r, b) }",
       .inputs = {{"x", Floats({1, 1, 2, 2}, {1, 2, 3, 6})},
                  {"r", Floats({1, 4}, {0, 0, 2, 2})},
                  {"b", Ints({1}, {0})}}});
  EXPECT_THAT(NeededInputs(y.status()), ElementsAre("r"));
}

}  // namespace
}  // namespace gpupool::engine::onnx_import
