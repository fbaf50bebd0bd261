#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/engine/import/onnx/operators/lowering_case.h"

namespace gpupool::engine::onnx_import {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(LowerElementwiseTest, AddOfEqualFloatingShapesIsTheOpThatFuses) {
  const auto model = ImportLowering(
      {.graph = "(float[2] a, float[2] b) => (float[2] y) { y = Add(a, b) }"});
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(CountOps(model->graph, Op::kAdd), 1);
  EXPECT_EQ(CountOps(model->graph, Op::kBinary), 0);
}

TEST(LowerElementwiseTest, OldBroadcastAlignsTheSecondOperandAtTheAxis) {
  const auto y =
      RunLowering({.opset = 6,
                   .graph = "(float[2, 3] a, float[2] b) => (float[2, 3] y) "
                            "{ y = Add<broadcast = 1, axis = 0>(a, b) }",
                   .inputs = {{"a", Floats({2, 3}, {0, 1, 2, 3, 4, 5})},
                              {"b", Floats({2}, {10, 20})}}});
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_THAT((*y)[0].numbers, ElementsAre(10, 11, 12, 23, 24, 25));
}

TEST(LowerElementwiseTest, OldBroadcastThatDoesNotFitIsRefused) {
  const auto y = ImportLowering(
      {.opset = 6,
       .graph = "(float[2, 3] a, float[2, 3] b) => (float[2, 3] y) "
                "{ y = Add<broadcast = 1, axis = 1>(a, b) }"});
  EXPECT_EQ(y.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(y.status().message()), HasSubstr("axis 1"));
}

TEST(LowerElementwiseTest, ClipTakesLimitsFromAttributesBeforeOpset11) {
  const auto y = RunLowering({.opset = 6,
                              .graph = "(float[3] x) => (float[3] y) "
                                       "{ y = Clip<min = -1.0, max = 2.0>(x) }",
                              .inputs = {{"x", Floats({3}, {-5, 0.5, 5})}}});
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_THAT((*y)[0].numbers, ElementsAre(-1, 0.5, 2));
}

TEST(LowerElementwiseTest, ClipTakesLimitsFromInputsThatNeedNotBeKnown) {
  const auto y =
      RunLowering({.opset = 13,
                   .graph = "(float[3] x, float high) => (float[3] y) "
                            "{ y = Clip(x, , high) }",
                   .inputs = {{"x", Floats({3}, {-5, 0.5, 5})},
                              {"high", Floats({}, {2})}}});
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_THAT((*y)[0].numbers, ElementsAre(-5, 0.5, 2));
}

TEST(LowerElementwiseTest, BitsOfIntegersAreCombined) {
  const auto y = RunLowering(
      {.opset = 18,
       .graph = "(int64[3] a, int64[1] b) => (int64[3] x, int64[3] y, int64[3] "
                "z) { x = BitwiseAnd(a, b) y = BitwiseOr(a, b) z = "
                "BitwiseXor(a, b) }",
       .inputs = {{"a", Ints({3}, {12, -1, 0})}, {"b", Ints({1}, {10})}}});
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_THAT((*y)[0].numbers, ElementsAre(8, 10, 0));
  EXPECT_THAT((*y)[1].numbers, ElementsAre(14, -1, 10));
  EXPECT_THAT((*y)[2].numbers, ElementsAre(6, -11, 10));
}

// uint16 is held as int32, but its complement has 16 bits.
TEST(LowerElementwiseTest, TheComplementHasTheBitsOfTheTypeInTheFile) {
  HostTensor x = Ints({2}, {0, 5});
  x.dtype = DType::kInt32;
  const auto y =
      RunLowering({.opset = 18,
                   .graph = "(uint16[2] x, int32[2] z) => (uint16[2] y, "
                            "uint16[2] again, int32[2] w) { y = BitwiseNot(x) "
                            "again = BitwiseNot(y) w = BitwiseNot(z) }",
                   .inputs = {{"x", x}, {"z", x}}});
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_THAT((*y)[0].numbers, ElementsAre(65535, 65530));
  EXPECT_THAT((*y)[1].numbers, ElementsAre(0, 5));
  EXPECT_THAT((*y)[2].numbers, ElementsAre(-1, -6));
}

TEST(LowerElementwiseTest, LogicAndBitsTakeTheirOwnTypesOnly) {
  for (const char* graph :
       {"(int64[1] a) => (int64[1] y) { y = And(a, a) }",
        "(bool[1] a) => (bool[1] y) { y = BitwiseAnd(a, a) }",
        "(float[1] a) => (float[1] y) { y = BitwiseNot(a) }"}) {
    const auto y = ImportLowering({.opset = 18, .graph = graph});
    EXPECT_EQ(y.status().code(), absl::StatusCode::kInvalidArgument) << graph;
  }
}

TEST(LowerElementwiseTest, BitsOfIntegersTakeAnotherType) {
  HostTensor x = Ints({2}, {-1, 5});
  x.dtype = DType::kInt8;
  HostTensor z = Ints({2}, {65535, 5});
  z.dtype = DType::kInt32;
  const auto y = RunLowering(
      {.opset = 26,
       .graph = "(int8[2] x, uint16[2] z) => (uint8[2] y, int16[2] w) "
                "{ y = BitCast<to = 2>(x) w = BitCast<to = 5>(z) }",
       .inputs = {{"x", x}, {"z", z}}});
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_EQ((*y)[0].dtype, DType::kUint8);
  EXPECT_THAT((*y)[0].numbers, ElementsAre(255, 5));
  EXPECT_THAT((*y)[1].numbers, ElementsAre(-1, 5));
}

TEST(LowerElementwiseTest, BitsThatAreNotKnownAreRefused) {
  const auto real = ImportLowering(
      {.opset = 26,
       .graph = "(float[1] x) => (int32[1] y) { y = BitCast<to = 6>(x) }"});
  EXPECT_EQ(real.status().code(), absl::StatusCode::kUnimplemented);
  const auto shorter = ImportLowering(
      {.opset = 26,
       .graph = "(int32[1] x) => (int8[1] y) { y = BitCast<to = 3>(x) }"});
  EXPECT_EQ(shorter.status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(LowerElementwiseTest, CastsToNarrowTypesKeepTheirType) {
  const auto y =
      RunLowering({.opset = 25,
                   .graph = "(float[2] x) => (float[2] y, float[2] z) "
                            "{ a = Cast<to = 22>(x) y = Cast<to = 1>(a) "
                            "b = CastLike(x, a) z = Cast<to = 1>(b) }",
                   .inputs = {{"x", Floats({2}, {9, -3})}}});
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_THAT((*y)[0].numbers, ElementsAre(-7, -3));
  EXPECT_THAT((*y)[1].numbers, ElementsAre(-7, -3));
}

TEST(LowerElementwiseTest, ModOfFloatingNumbersNeedsFmod) {
  const auto y = ImportLowering(
      {.graph = "(float[1] a, float[1] b) => (float[1] y) { y = Mod(a, b) }"});
  EXPECT_EQ(y.status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(LowerElementwiseTest, PowKeepsTheTypeOfTheBase) {
  const auto y = RunLowering(
      {.opset = 15,
       .graph = "(int64[2] a, float[2] b) => (int64[2] y) { y = Pow(a, b) }",
       .inputs = {{"a", Ints({2}, {4, 9})}, {"b", Floats({2}, {0.5, 2})}}});
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_EQ((*y)[0].dtype, DType::kInt64);
  EXPECT_THAT((*y)[0].numbers, ElementsAre(2, 81));
}

}  // namespace
}  // namespace gpupool::engine::onnx_import
