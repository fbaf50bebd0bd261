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

// The grid names depth last. Between two slices lies their mean.
TEST(LowerSamplingTest, VolumesAreReadAlongThreeAxes) {
  const auto y = RunLowering(
      {.opset = 22,
       .graph = "(float[1, 1, 2, 1, 2] x, float[1, 1, 1, 2, 3] g) => "
                "(float[1, 1, 1, 1, 2] y) "
                "{ y = GridSample<align_corners = 1>(x, g) }",
       .inputs = {{"x", Floats({1, 1, 2, 1, 2}, {1, 2, 10, 20})},
                  {"g", Floats({1, 1, 1, 2, 3}, {1, 0, -1, -1, 0, 0})}}});
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_THAT((*y)[0].numbers, ElementsAre(2, 5.5));
}

TEST(LowerSamplingTest, AGridOfAnotherRankIsRefused) {
  const auto y = ImportLowering(
      {.opset = 22,
       .graph = "(float[1, 1, 2, 1, 2] x, float[1, 1, 2, 2] g) => "
                "(float[1, 1, 1, 1, 2] y) { y = GridSample(x, g) }"});
  EXPECT_THAT(std::string(y.status().message()), HasSubstr("does not fit"));
}

std::vector<double> Grid(const std::string& attributes) {
  const auto y = RunLowering(
      {.opset = 20,
       .graph = "(float[1, 2, 3] t) => (float[1, 1, 2, 2] y) "
                "{ s = Constant<value_ints = [1, 1, 1, 2]>() y = AffineGrid" +
                attributes + "(t, s) }",
       .inputs = {{"t", Floats({1, 2, 3}, {2, 0, 10, 0, 1, 20})}}});
  EXPECT_TRUE(y.ok()) << y.status();
  return y.ok() ? (*y)[0].numbers : std::vector<double>();
}

TEST(LowerSamplingTest, AnAffineGridMovesTheMiddlesOrCornersOfCells) {
  EXPECT_THAT(Grid(""), ElementsAre(9, 20, 11, 20));
  EXPECT_THAT(Grid("<align_corners = 1>"), ElementsAre(8, 20, 12, 20));
}

TEST(LowerSamplingTest, AnAffineGridNeedsMatricesOfItsAxes) {
  const auto y =
      ImportLowering({.opset = 20,
                      .graph = "(float[1, 2, 3] t) => (float[1, 1, 2, 2] y) "
                               "{ s = Constant<value_ints = [1, 1, 1, 2, 2]>() "
                               "y = AffineGrid(t, s) }"});
  EXPECT_THAT(std::string(y.status().message()), HasSubstr("does not fit"));
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
