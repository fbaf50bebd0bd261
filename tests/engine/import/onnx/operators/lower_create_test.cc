#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/engine/import/onnx/operators/lowering_case.h"

namespace gpupool::engine::onnx_import {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(LowerCreateTest, RangeCountsInItsType) {
  const auto y = RunLowering(
      {.graph = "() => (int64[3] y) { a = Constant<value_int = 5>() "
                "b = Constant<value_int = -1>() c = Constant<value_int = -2>() "
                "y = Range(a, b, c) }"});
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_EQ((*y)[0].dtype, DType::kInt64);
  EXPECT_THAT((*y)[0].numbers, ElementsAre(5, 3, 1));
}

TEST(LowerCreateTest, AnEndlessOrHugeRangeIsRefused) {
  for (const char* delta : {"0.0", "0.000000001"}) {
    const auto y = ImportLowering(
        {.graph = absl::StrCat(
             "() => (float[N] y) { a = Constant<value_float = 0.0>() "
             "b = Constant<value_float = 1.0>() c = Constant<value_float = ",
             delta, ">() y = Range(a, b, c) }")});
    EXPECT_EQ(y.status().code(), absl::StatusCode::kInvalidArgument) << delta;
  }
}

TEST(LowerCreateTest, ConstantOfShapeRefusesMoreElementsThanThereMayBe) {
  const auto y = ImportLowering(
      {.graph = "() => (float[N, M] y) "
                "{ s = Constant<value = int64[2] "
                "{1099511627776, 1099511627776}>() y = ConstantOfShape(s) }"});
  EXPECT_EQ(y.status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(LowerCreateTest, TriluKeepsOneSideOfADiagonal) {
  const auto y = RunLowering(
      {.graph = "(float[2, 3] x) => (float[2, 3] y) "
                "{ k = Constant<value_int = 1>() y = Trilu<upper = 0>(x, k) }",
       .inputs = {{"x", Floats({2, 3}, {1, 2, 3, 4, 5, 6})}}});
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_THAT((*y)[0].numbers, ElementsAre(1, 2, 0, 4, 5, 6));
}

}  // namespace
}  // namespace gpupool::engine::onnx_import
