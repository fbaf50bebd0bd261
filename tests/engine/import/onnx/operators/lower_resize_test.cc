#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/engine/import/onnx/operators/lowering_case.h"

namespace gpupool::engine::onnx_import {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(LowerResizeTest, UpsampleRepeatsCellsInAllItsVersions) {
  const HostTensor x = Floats({1, 1, 1, 2}, {1, 2});
  const char* const scales = "s = Constant<value = float[4] {1, 1, 1, 2}>() ";
  const struct {
    int opset;
    std::string nodes;
  } versions[] = {
      {7, "y = Upsample<scales = [1.0, 1.0, 1.0, 2.0]>(x)"},
      {9, absl::StrCat(scales, "y = Upsample(x, s)")},
      {10, absl::StrCat(scales, "y = Resize(x, s)")},
      {11,
       absl::StrCat(
           scales, "r = Constant<value = float[1] {0}>() y = Resize(x, r, s)")},
      {13,
       "s = Constant<value = int64[4] {1, 1, 1, 4}>() "
       "y = Resize(x, , , s)"},
      {18,
       "s = Constant<value = int64[1] {4}>() "
       "y = Resize<axes = [-1]>(x, , , s)"},
  };
  for (const auto& version : versions) {
    const auto y = RunLowering({.opset = version.opset,
                                .graph = "(float[1, 1, 1, 2] x) => "
                                         "(float[1, 1, 1, 4] y) { " +
                                         version.nodes + " }",
                                .inputs = {{"x", x}}});
    ASSERT_TRUE(y.ok()) << version.opset << ": " << y.status();
    EXPECT_THAT((*y)[0].numbers, ElementsAre(1, 1, 2, 2)) << version.opset;
  }
}

TEST(LowerResizeTest, HostileSizesAreRefused) {
  for (const char* sizes :
       {"int64[4] {1, 1, 1, 0}", "int64[4] {1, 1, 1, -4}", "int64[3] {1, 1, 1}",
        "int64[4] {1, 1, 1, 9223372036854775807}"}) {
    const auto y = ImportLowering(
        {.opset = 13,
         .graph = std::string("(float[1, 1, 1, 2] x) => (float[N] y) "
                              "{ s = Constant<value = ") +
                  sizes + ">() y = Resize(x, , , s) }"});
    EXPECT_EQ(y.status().code(), absl::StatusCode::kInvalidArgument) << sizes;
  }
}

TEST(LowerResizeTest, AnUnknownModeIsNamed) {
  const auto y = ImportLowering(
      {.opset = 13,
       .graph = "(float[1, 1, 1, 2] x) => (float[N] y) "
                "{ s = Constant<value = int64[4] {1, 1, 1, 4}>() "
                "y = Resize<mode = \"lanczos\">(x, , , s) }"});
  EXPECT_THAT(std::string(y.status().message()), HasSubstr("lanczos"));
}

}  // namespace
}  // namespace gpupool::engine::onnx_import
