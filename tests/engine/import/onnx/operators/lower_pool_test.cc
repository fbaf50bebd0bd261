#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/engine/import/onnx/operators/lowering_case.h"

namespace gpupool::engine::onnx_import {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(LowerPoolTest, IndicesCountOverTheWholeInput) {
  const auto y = RunLowering(
      {.graph = "(float[1, 2, 1, 4] x) => (float[1, 2, 1, 2] y, "
                "int64[1, 2, 1, 2] i) { y, i = MaxPool<kernel_shape = [1, 2], "
                "strides = [1, 2]>(x) }",
       .inputs = {{"x", Floats({1, 2, 1, 4}, {1, 2, 4, 3, 1, 2, 4, 3})}}});
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_THAT((*y)[1].numbers, ElementsAre(1, 2, 5, 6));
}

TEST(LowerPoolTest, UnpoolingPutsTheMaximaBack) {
  const auto y = RunLowering(
      {.graph = "(float[1, 1, 4] x) => (float[1, 1, 4] y) "
                "{ m, i = MaxPool<kernel_shape = [2], strides = [2]>(x) "
                "y = MaxUnpool<kernel_shape = [2], strides = [2]>(m, i) }",
       .inputs = {{"x", Floats({1, 1, 4}, {1, 2, 4, 3})}}});
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_THAT((*y)[0].numbers, ElementsAre(0, 2, 4, 0));
}

TEST(LowerPoolTest, AveragesCountPaddingOnlyWhenAsked) {
  for (const int include : {0, 1}) {
    const auto y = RunLowering(
        {.graph = absl::StrCat(
             "(float[1, 1, 2] x) => (float[1, 1, 3] y) { y = AveragePool<"
             "kernel_shape = [2], pads = [1, 1], count_include_pad = ",
             include, ">(x) }"),
         .inputs = {{"x", Floats({1, 1, 2}, {2, 4})}}});
    ASSERT_TRUE(y.ok()) << y.status();
    EXPECT_THAT((*y)[0].numbers,
                ElementsAre(include ? 1 : 2, 3, include ? 2 : 4));
  }
}

TEST(LowerPoolTest, APoolWithoutAKernelIsRefused) {
  const auto y = ImportLowering({.graph = "(float[1, 1, 4] x) => "
                                          "(float[1, 1, 3] y) "
                                          "{ y = MaxPool(x) }"});
  EXPECT_THAT(std::string(y.status().message()), HasSubstr("kernel_shape"));
}

TEST(LowerPoolTest, LpPoolIsTheNormOfEachWindow) {
  const auto y =
      RunLowering({.graph = "(float[1, 1, 2] x) => (float[1, 1, 1] y) "
                            "{ y = LpPool<kernel_shape = [2]>(x) }",
                   .inputs = {{"x", Floats({1, 1, 2}, {3, -4})}}});
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_NEAR((*y)[0].numbers[0], 5, 1e-5);
}

}  // namespace
}  // namespace gpupool::engine::onnx_import
