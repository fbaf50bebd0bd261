#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/engine/import/onnx/operators/lowering_case.h"

namespace gpupool::engine::onnx_import {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(LowerRandomTest, TwoNodesDrawDifferentNumbers) {
  const auto y = RunLowering(
      {.graph = "() => (float[8] a, float[8] b) "
                "{ a = RandomUniform<shape = [8], low = 2.0, high = 3.0>() "
                "b = RandomUniform<shape = [8], low = 2.0, high = 3.0>() }"});
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_NE((*y)[0].numbers, (*y)[1].numbers);
  for (double number : (*y)[0].numbers) {
    EXPECT_GE(number, 2);
    EXPECT_LT(number, 3);
  }
}

TEST(LowerRandomTest, MultinomialNeverDrawsTheImpossible) {
  const auto y =
      RunLowering({.graph = "(float[1, 3] x) => (int32[1, 64] y) "
                            "{ y = Multinomial<sample_size = 64>(x) }",
                   .inputs = {{"x", Floats({1, 3}, {0, -1e30, 0})}}});
  ASSERT_TRUE(y.ok()) << y.status();
  int first = 0;
  for (double number : (*y)[0].numbers) {
    EXPECT_NE(number, 1);
    first += number == 0;
  }
  EXPECT_GT(first, 10);
  EXPECT_LT(first, 54);
}

TEST(LowerRandomTest, AHugeShapeIsRefused) {
  const auto y = ImportLowering(
      {.graph = "() => (float[N] a) "
                "{ a = RandomNormal<shape = [9223372036854775807, 9]>() }"});
  EXPECT_EQ(y.status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace gpupool::engine::onnx_import
