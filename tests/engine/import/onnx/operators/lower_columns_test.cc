#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/engine/import/onnx/operators/lowering_case.h"

namespace gpupool::engine::onnx_import {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

LoweringCase Folded(const std::string& attributes, const std::string& image,
                    HostTensor x) {
  return {.opset = 18,
          .graph = "(float" + x.shape.ToString() +
                   " x) => (float[a, b, c, d] y) { s = Constant<value_ints = " +
                   image +
                   ">() k = Constant<value_ints = [1, 2]>() y = Col2Im" +
                   attributes + "(x, s, k) }",
          .inputs = {{"x", std::move(x)}}};
}

// Blocks of two cells: the first cells of all blocks come first.
TEST(LowerColumnsTest, OverlappingBlocksAddUp) {
  const HostTensor x = Floats({1, 2, 3}, {1, 2, 3, 10, 20, 30});
  const auto y = RunLowering(Folded("", "[1, 4]", x));
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_EQ((*y)[0].shape, Shape({1, 1, 1, 4}));
  EXPECT_THAT((*y)[0].numbers, ElementsAre(1, 12, 23, 30));
  const auto padded = RunLowering(Folded("<pads = [0, 1, 0, 1]>", "[1, 2]", x));
  ASSERT_TRUE(padded.ok()) << padded.status();
  EXPECT_THAT((*padded)[0].numbers, ElementsAre(12, 23));
}

TEST(LowerColumnsTest, StridesAndDilationsMoveTheCells) {
  const auto y =
      RunLowering(Folded("<strides = [1, 2], dilations = [1, 3]>", "[1, 6]",
                         Floats({1, 2, 2}, {1, 2, 10, 20})));
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_THAT((*y)[0].numbers, ElementsAre(1, 0, 2, 10, 0, 20));
}

TEST(LowerColumnsTest, ChannelsFollowEachOther) {
  const auto y =
      RunLowering(Folded("", "[1, 2]", Floats({1, 4, 1}, {1, 2, 3, 4})));
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_EQ((*y)[0].shape, Shape({1, 2, 1, 2}));
  EXPECT_THAT((*y)[0].numbers, ElementsAre(1, 2, 3, 4));
}

TEST(LowerColumnsTest, ColumnsThatDoNotFitAreRefused) {
  const auto y =
      ImportLowering(Folded("", "[1, 4]", Floats({1, 2, 2}, {1, 2, 10, 20})));
  EXPECT_THAT(std::string(y.status().message()),
              HasSubstr("must be [N, C * 2"));
  const auto large =
      ImportLowering(Folded("", "[1, 1]", Floats({1, 2, 1}, {1, 2})));
  EXPECT_THAT(std::string(large.status().message()), HasSubstr("does not fit"));
}

LoweringCase Deformed(const std::string& operands) {
  return {.opset = 19,
          .graph =
              "(float[1, 1, 1, 3] x, float[1, 1, 1, 2] w, "
              "float[1, 4, 1, 2] o, float[1] b, float[1, 2, 1, 2] m) => "
              "(float[1, 1, 1, 2] y) { y = DeformConv(" +
              operands + ") }",
          .inputs = {{"x", Floats({1, 1, 1, 3}, {1, 3, 7})},
                     {"w", Floats({1, 1, 1, 2}, {1, 10})},
                     {"o", Floats({1, 4, 1, 2}, {0, 0, 0.5, 0,  //
                                                 0, 0, 0, 1})},
                     {"b", Floats({1}, {100})},
                     {"m", Floats({1, 2, 1, 2}, {1, 1, 0.5, 1})}}};
}

// The first cell of the first block lies half a cell on, and the last cell of
// the second block lies outside.
TEST(LowerColumnsTest, BlocksWithoutCellsAreRefused) {
  const auto y = ImportLowering(
      {.opset = 18,
       .graph = "(float[1, 2, 3] x) => (float[a, b, c, d] y) { "
                "s = Constant<value_ints = [1, 4]>() "
                "k = Constant<value_ints = [1, 0]>() y = Col2Im(x, s, k) }"});
  EXPECT_EQ(y.status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(LowerColumnsTest, OffsetsMoveTheCellsOfEachBlock) {
  const auto y = RunLowering(Deformed("x, w, o"));
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_THAT((*y)[0].numbers, ElementsAre(2 + 30, 3 + 0));
  const auto masked = RunLowering(Deformed("x, w, o, b, m"));
  ASSERT_TRUE(masked.ok()) << masked.status();
  EXPECT_THAT((*masked)[0].numbers, ElementsAre(102 + 15, 103));
}

TEST(LowerColumnsTest, OffsetsOfAnotherShapeAreRefused) {
  const auto y = ImportLowering(Deformed("x, w, m"));
  EXPECT_THAT(std::string(y.status().message()), HasSubstr("[1, 4, 1, 2]"));
}

}  // namespace
}  // namespace gpupool::engine::onnx_import
