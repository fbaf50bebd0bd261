#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/engine/import/onnx/operators/lowering_case.h"

namespace gpupool::engine::onnx_import {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(LowerQuantizeTest, RoundsToEvenAndSaturates) {
  const auto y =
      RunLowering({.opset = 13,
                   .graph = "(float[4] x, float s) => (int8[4] y) "
                            "{ z = Constant<value = int8[1] {0}>() "
                            "y = QuantizeLinear(x, s, z) }",
                   .inputs = {{"x", Floats({4}, {1, 3, -1000, 1000})},
                              {"s", Floats({}, {2})}}});
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_EQ((*y)[0].dtype, DType::kInt8);
  EXPECT_THAT((*y)[0].numbers, ElementsAre(0, 2, -128, 127));
}

TEST(LowerQuantizeTest, ScalesMayBePerChannel) {
  const auto y =
      RunLowering({.opset = 13,
                   .graph = "(float[2, 2] x, float[2] s) => (uint8[2, 2] y) "
                            "{ y = QuantizeLinear<axis = 0>(x, s) }",
                   .inputs = {{"x", Floats({2, 2}, {10, 20, 10, 20})},
                              {"s", Floats({2}, {1, 10})}}});
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_THAT((*y)[0].numbers, ElementsAre(10, 20, 1, 2));
}

TEST(LowerQuantizeTest, ScalesPerBlockAreUnimplemented) {
  const auto y =
      ImportLowering({.opset = 21,
                      .graph = "(float[2] x, float[1] s) => (uint8[2] y) "
                               "{ y = QuantizeLinear<block_size = 2>(x, s) }"});
  EXPECT_EQ(y.status().code(), absl::StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace gpupool::engine::onnx_import
