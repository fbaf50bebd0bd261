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

TEST(LowerQuantizeTest, CodesOf4BitsSaturate) {
  const auto y =
      RunLowering({.opset = 21,
                   .graph = "(float[4] x, float s) => (float[4] y, float[4] z) "
                            "{ a = QuantizeLinear<output_dtype = 22>(x, s) "
                            "b = QuantizeLinear<output_dtype = 21>(x, s) "
                            "y = Cast<to = 1>(a) z = DequantizeLinear(b, s) }",
                   .inputs = {{"x", Floats({4}, {1, 3, -1000, 1000})},
                              {"s", Floats({}, {2})}}});
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_THAT((*y)[0].numbers, ElementsAre(0, 2, -8, 7));
  EXPECT_THAT((*y)[1].numbers, ElementsAre(0, 4, 0, 30));
}

// Their steps grow with the number: 103 / 2 lies between 48 and 52.
TEST(LowerQuantizeTest, CodesOfFloat8AreRoundedToTheirSteps) {
  const auto y = RunLowering(
      {.opset = 21,
       .graph = "(float[3] x, float s) => (float[3] y) "
                "{ a = QuantizeLinear<output_dtype = 17>(x, s) "
                "y = DequantizeLinear(a, s) }",
       .inputs = {{"x", Floats({3}, {1, 103, -1e5})}, {"s", Floats({}, {2})}}});
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_THAT((*y)[0].numbers, ElementsAre(1, 104, -896));
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

TEST(LowerQuantizeTest, CodesOf16BitsSaturateWhereverTheirTypeIsSaid) {
  const char* const graphs[] = {
      "{ z = Constant<value = uint16 {1}>() y = QuantizeLinear(x, s, z) }",
      "{ y = QuantizeLinear<output_dtype = 4>(x, s) }",
      "<uint16 z = {1}> { y = QuantizeLinear(x, s, z) }"};
  for (const char* graph : graphs) {
    const auto y = RunLowering(
        {.opset = 21,
         .graph =
             std::string("(float[2] x, float s) => (uint16[2] y) ") + graph,
         .inputs = {{"x", Floats({2}, {-9, 70000})}, {"s", Floats({}, {1})}}});
    ASSERT_TRUE(y.ok()) << graph << y.status();
    EXPECT_THAT((*y)[0].numbers, ElementsAre(0, 65535)) << graph;
  }
}

TEST(LowerQuantizeTest, TheLastBlockMayBeShorter) {
  const auto y = RunLowering(
      {.opset = 21,
       .graph = "(uint8[2, 3] x, float[2, 2] s) => (float[2, 3] y) "
                "{ y = DequantizeLinear<axis = 1, block_size = 2>(x, s) }",
       .inputs = {{"x", {DType::kUint8, {2, 3}, {1, 2, 3, 4, 5, 6}}},
                  {"s", Floats({2, 2}, {1, 10, 100, 1000})}}});
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_THAT((*y)[0].numbers, ElementsAre(1, 2, 30, 400, 500, 6000));
}

// A range of 0 has no scale, so it is 1.
TEST(LowerQuantizeTest, ZerosStayZerosWhenTheirRangeIsMeasured) {
  const auto y =
      RunLowering({.opset = 11,
                   .graph = "(float[2] x) => (uint8[2] y, float s, uint8 z) "
                            "{ y, s, z = DynamicQuantizeLinear(x) }",
                   .inputs = {{"x", Floats({2}, {0, 0})}}});
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_THAT((*y)[0].numbers, ElementsAre(0, 0));
  EXPECT_THAT((*y)[1].numbers, ElementsAre(1));
  EXPECT_THAT((*y)[2].numbers, ElementsAre(0));
}

TEST(LowerQuantizeTest, ScalesThatDoNotCoverTheBlocksAreRefused) {
  const auto y = ImportLowering(
      {.opset = 21,
       .graph = "(float[2, 3] x, float[2, 3] s) => (uint8[2, 3] y) "
                "{ y = QuantizeLinear<block_size = 2>(x, s) }"});
  EXPECT_THAT(std::string(y.status().message()),
              HasSubstr("are [2, 3] and must be [2, 2] for blocks of 2"));
}

}  // namespace
}  // namespace gpupool::engine::onnx_import
