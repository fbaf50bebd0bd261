#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/engine/import/onnx/operators/lowering_case.h"

namespace gpupool::engine::onnx_import {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(LowerIndexTest, SliceTakesItsBoundsFromAttributesOrInputs) {
  const HostTensor x = Floats({4}, {0, 1, 2, 3});
  const auto attributes =
      RunLowering({.opset = 9,
                   .graph = "(float[4] x) => (float[N] y) "
                            "{ y = Slice<starts = [1], ends = [1000]>(x) }",
                   .inputs = {{"x", x}}});
  ASSERT_TRUE(attributes.ok()) << attributes.status();
  EXPECT_THAT((*attributes)[0].numbers, ElementsAre(1, 2, 3));
  const auto inputs = RunLowering(
      {.opset = 13,
       .graph =
           "(float[4] x) => (float[N] y) "
           "{ s = Constant<value = int64[1] {-1}>() "
           "e = Constant<value = int64[1] {-9223372036854775807}>() "
           "a = Constant<value = int64[1] {0}>() "
           "t = Constant<value = int64[1] {-2}>() y = Slice(x, s, e, a, t) }",
       .inputs = {{"x", x}}});
  ASSERT_TRUE(inputs.ok()) << inputs.status();
  EXPECT_THAT((*inputs)[0].numbers, ElementsAre(3, 1));
}

TEST(LowerIndexTest, ASliceOfNothingIsAnEmptyConstant) {
  const auto y =
      RunLowering({.opset = 9,
                   .graph = "(float[4] x) => (float[N] y) "
                            "{ y = Slice<starts = [4], ends = [9]>(x) }",
                   .inputs = {{"x", Floats({4}, {0, 1, 2, 3})}}});
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_TRUE((*y)[0].numbers.empty());
}

TEST(LowerIndexTest, SplitIsEqualGivenOrByCount) {
  const HostTensor x = Floats({5}, {0, 1, 2, 3, 4});
  const auto given =
      RunLowering({.opset = 11,
                   .graph = "(float[5] x) => (float[N] y, float[M] z) "
                            "{ y, z = Split<split = [2, 3]>(x) }",
                   .inputs = {{"x", x}}});
  ASSERT_TRUE(given.ok()) << given.status();
  EXPECT_THAT((*given)[1].numbers, ElementsAre(2, 3, 4));
  const auto unequal = ImportLowering(
      {.opset = 13,
       .graph = "(float[5] x) => (float[N] y, float[M] z) { y, z = Split(x) }",
       .inputs = {{"x", x}}});
  EXPECT_EQ(unequal.status().code(), absl::StatusCode::kInvalidArgument);
  const auto count =
      RunLowering({.opset = 18,
                   .graph = "(float[5] x) => (float[N] y, float[M] z) "
                            "{ y, z = Split<num_outputs = 2>(x) }",
                   .inputs = {{"x", x}}});
  ASSERT_TRUE(count.ok()) << count.status();
  EXPECT_THAT((*count)[1].numbers, ElementsAre(3, 4));
}

TEST(LowerIndexTest, PadTakesItsPadsFromAttributesOrInputs) {
  const HostTensor x = Floats({2}, {1, 2});
  const auto attributes =
      RunLowering({.opset = 9,
                   .graph = "(float[2] x) => (float[4] y) "
                            "{ y = Pad<pads = [1, 1], value = 7.0>(x) }",
                   .inputs = {{"x", x}}});
  ASSERT_TRUE(attributes.ok()) << attributes.status();
  EXPECT_THAT((*attributes)[0].numbers, ElementsAre(7, 1, 2, 7));
  const auto cut = RunLowering(
      {.opset = 13,
       .graph = "(float[2] x) => (float[2] y) "
                "{ p = Constant<value = int64[2] {-1, 1}>() y = Pad(x, p) }",
       .inputs = {{"x", x}}});
  ASSERT_TRUE(cut.ok()) << cut.status();
  EXPECT_THAT((*cut)[0].numbers, ElementsAre(2, 0));
}

TEST(LowerIndexTest, AHugePadIsRefused) {
  const auto y = ImportLowering(
      {.opset = 9,
       .graph = "(float[2] x) => (float[N] y) "
                "{ y = Pad<pads = [9223372036854775807, 1]>(x) }"});
  EXPECT_EQ(y.status().code(), absl::StatusCode::kInvalidArgument);
}

// The pads may be longer than the axis, which then repeats.
TEST(LowerIndexTest, PaddingThatWrapsTakesTheOtherEnd) {
  const auto y =
      RunLowering({.opset = 19,
                   .graph = "(float[1, 3] x) => (float[1, 9] y) "
                            "{ p = Constant<value = int64[4] {0, 4, 0, 2}>() "
                            "y = Pad<mode = \"wrap\">(x, p) }",
                   .inputs = {{"x", Floats({1, 3}, {1, 2, 3})}}});
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_THAT((*y)[0].numbers, ElementsAre(3, 1, 2, 3, 1, 2, 3, 1, 2));
}

TEST(LowerIndexTest, CentredCropsAndPadsGiveTheOddCellToTheEnd) {
  const auto y = RunLowering(
      {.opset = 18,
       .graph = "(float[4, 1] x) => (float[1, 4] y, float[7, 1] z) "
                "{ s = Constant<value = int64[2] {1, 4}>() "
                "y = CenterCropPad(x, s) t = Constant<value = int64[1] {7}>() "
                "z = CenterCropPad<axes = [-2]>(x, t) }",
       .inputs = {{"x", Floats({4, 1}, {1, 2, 3, 4})}}});
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_THAT((*y)[0].numbers, ElementsAre(0, 2, 0, 0));
  EXPECT_THAT((*y)[1].numbers, ElementsAre(0, 1, 2, 3, 4, 0, 0));
}

TEST(LowerIndexTest, CentredCropsNeedOneSizePerAxis) {
  const auto y =
      ImportLowering({.opset = 18,
                      .graph = "(float[4, 1] x) => (float[1, 4] y) "
                               "{ s = Constant<value = int64[1] {1}>() "
                               "y = CenterCropPad(x, s) }"});
  EXPECT_THAT(std::string(y.status().message()),
              HasSubstr("1 sizes for 2 axes"));
}

std::vector<double> Scattered(const std::string& attributes) {
  const auto y = RunLowering(
      {.opset = 24,
       .graph = "(float[2, 3, 1] c, float[2, 2, 1] u, int64[2] w) => "
                "(float[2, 3, 1] y) { y = TensorScatter" +
                attributes + "(c, u, w) }",
       .inputs = {{"c", Floats({2, 3, 1}, {1, 2, 3, 4, 5, 6})},
                  {"u", Floats({2, 2, 1}, {10, 20, 30, 40})},
                  {"w", Ints({2}, {0, attributes.empty() ? 1.0 : 2.0})}}});
  EXPECT_TRUE(y.ok()) << y.status();
  return y.ok() ? (*y)[0].numbers : std::vector<double>();
}

TEST(LowerIndexTest, ACacheIsWrittenFromEachSequencesPlace) {
  EXPECT_THAT(Scattered(""), ElementsAre(10, 20, 3, 4, 30, 40));
  EXPECT_THAT(Scattered("<mode = \"circular\">"),
              ElementsAre(10, 20, 3, 40, 5, 30));
}

TEST(LowerIndexTest, AnUpdateLongerThanItsCacheIsRefused) {
  const auto y = ImportLowering(
      {.opset = 24,
       .graph = "(float[2, 3, 1] c, float[2, 4, 1] u) => (float[2, 3, 1] y) "
                "{ y = TensorScatter(c, u) }"});
  EXPECT_THAT(std::string(y.status().message()), HasSubstr("does not fit"));
}

TEST(LowerIndexTest, AnUnknownReductionOfAScatterIsRefused) {
  const auto y = ImportLowering(
      {.opset = 16,
       .graph = "(float[2] x, int64[1] i, float[1] u) => (float[2] y) "
                "{ y = ScatterElements<reduction = \"xor\">(x, i, u) }"});
  EXPECT_THAT(std::string(y.status().message()), HasSubstr("xor"));
}

}  // namespace
}  // namespace gpupool::engine::onnx_import
