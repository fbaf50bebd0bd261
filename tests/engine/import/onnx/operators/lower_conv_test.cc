#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/engine/import/onnx/operators/lowering_case.h"

namespace gpupool::engine::onnx_import {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(LowerConvTest, BiasIsPartOfTheConvolution) {
  const auto model = ImportLowering(
      {.graph = "(float[1, 1, 4, 4] x, float[2, 1, 3, 3] w, float[2] b) => "
                "(float[1, 2, 2, 2] y) { y = Conv(x, w, b) }"});
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->graph.nodes().size(), 1u);
}

TEST(LowerConvTest, SamePaddingPutsTheOddCellWhereItsNameSays) {
  for (const char* mode : {"SAME_UPPER", "SAME_LOWER"}) {
    const auto y = RunLowering(
        {.graph = absl::StrCat("(float[1, 1, 3] x, float[1, 1, 2] w) => "
                               "(float[1, 1, 3] y) { y = Conv<auto_pad = \"",
                               mode, "\">(x, w) }"),
         .inputs = {{"x", Floats({1, 1, 3}, {1, 2, 3})},
                    {"w", Floats({1, 1, 2}, {1, 10})}}});
    ASSERT_TRUE(y.ok()) << y.status();
    if (absl::string_view(mode) == "SAME_UPPER") {
      EXPECT_THAT((*y)[0].numbers, ElementsAre(21, 32, 3));
    } else {
      EXPECT_THAT((*y)[0].numbers, ElementsAre(10, 21, 32));
    }
  }
}

TEST(LowerConvTest, HostileWindowsAreRefused) {
  for (const char* attributes :
       {"strides = [0, 1]", "pads = [-1, 0, 0, 0]", "dilations = [1]",
        "group = 0", "strides = [9223372036854775807, 1]",
        "kernel_shape = [2, 2]", "auto_pad = \"SAME\""}) {
    const auto y = ImportLowering(
        {.graph = absl::StrCat("(float[1, 1, 4, 4] x, float[1, 1, 3, 3] w) => "
                               "(float[1, 1, 2, 2] y) { y = Conv<",
                               attributes, ">(x, w) }")});
    EXPECT_EQ(y.status().code(), absl::StatusCode::kInvalidArgument)
        << attributes;
  }
}

TEST(LowerConvTest, TransposedConvolutionFillsCellsThatNothingReaches) {
  const auto y = RunLowering(
      {.graph =
           "(float[1, 1, 2] x, float[1, 1, 1] w) => (float[1, 1, 6] y) "
           "{ y = ConvTranspose<strides = [3], output_shape = [6]>(x, w) }",
       .inputs = {{"x", Floats({1, 1, 2}, {1, 2})},
                  {"w", Floats({1, 1, 1}, {5})}}});
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_THAT((*y)[0].numbers, ElementsAre(5, 0, 0, 10, 0, 0));
}

TEST(LowerConvTest, TransposedConvolutionCutsItsPads) {
  const auto y = RunLowering(
      {.graph = "(float[1, 1, 2] x, float[1, 1, 3] w, float[1] b) => "
                "(float[1, 1, 3] y) "
                "{ y = ConvTranspose<strides = [2], pads = [1, 1]>(x, w, b) }",
       .inputs = {{"x", Floats({1, 1, 2}, {1, 10})},
                  {"w", Floats({1, 1, 3}, {1, 2, 3})},
                  {"b", Floats({1}, {100})}}});
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_THAT((*y)[0].numbers, ElementsAre(102, 113, 120));
}

}  // namespace
}  // namespace gpupool::engine::onnx_import
