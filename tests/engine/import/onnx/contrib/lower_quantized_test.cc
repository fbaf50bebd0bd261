#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/engine/import/onnx/operators/domain_case.h"
#include "tests/engine/import/onnx/operators/lowering_case.h"

namespace gpupool::engine::onnx_import {
namespace {

using ::testing::HasSubstr;

// NumPy: clip(rint(r / ys) + yz, 0, 255) of the real result r.
TEST(LowerQuantizedTest, AddRoundsTheRealResult) {
  const auto y = RunDomain(
      "(uint8[2, 2] a, float as, uint8 az, uint8[2] b, float bs, uint8 "
      "bz, float ys, uint8 yz) => (uint8[2, 2] y) { y = "
      "com.microsoft.QLinearAdd(a, as, az, b, bs, bz, ys, yz) } ",
      {{"a", {DType::kUint8, {2, 2}, {0, 50, 130, 255}}},
       {"as", Floats({}, {0.05})},
       {"az", {DType::kUint8, Shape(), {120}}},
       {"b", {DType::kUint8, {2}, {10, 200}}},
       {"bs", Floats({}, {0.1})},
       {"bz", {DType::kUint8, Shape(), {90}}},
       {"ys", Floats({}, {0.2})},
       {"yz", {DType::kUint8, Shape(), {60}}}});
  ASSERT_TRUE(y.ok()) << y.status();
  ExpectNumbers((*y)[0], {2, 2}, {0, 98, 22, 149});
}

// NumPy: clip(rint(r / ys) + yz, 0, 255) of the real result r.
TEST(LowerQuantizedTest, MulRoundsTheRealResult) {
  const auto y = RunDomain(
      "(uint8[2, 2] a, float as, uint8 az, uint8[2] b, float bs, uint8 "
      "bz, float ys, uint8 yz) => (uint8[2, 2] y) { y = "
      "com.microsoft.QLinearMul(a, as, az, b, bs, bz, ys, yz) } ",
      {{"a", {DType::kUint8, {2, 2}, {0, 50, 130, 255}}},
       {"as", Floats({}, {0.05})},
       {"az", {DType::kUint8, Shape(), {120}}},
       {"b", {DType::kUint8, {2}, {10, 200}}},
       {"bs", Floats({}, {0.1})},
       {"bz", {DType::kUint8, Shape(), {90}}},
       {"ys", Floats({}, {0.2})},
       {"yz", {DType::kUint8, Shape(), {60}}}});
  ASSERT_TRUE(y.ok()) << y.status();
  ExpectNumbers((*y)[0], {2, 2}, {255, 0, 40, 255});
}

TEST(LowerQuantizedTest, ZeroPointsMayBeAbsent) {
  const auto y = RunDomain(
      "(int8[2, 2] a, float as, int8[2] b, float bs, float ys) => "
      "(int8[2, 2] y) { y = com.microsoft.QLinearAdd(a, as, , b, bs, , "
      "ys) } ",
      {{"a", {DType::kInt8, {2, 2}, {0, 50, -124, -1}}},
       {"as", Floats({}, {0.05})},
       {"b", {DType::kInt8, {2}, {10, -20}}},
       {"bs", Floats({}, {0.1})},
       {"ys", Floats({}, {0.2})}});
  ASSERT_TRUE(y.ok()) << y.status();
  ExpectNumbers((*y)[0], {2, 2}, {5, 2, -26, -10});
}

TEST(LowerQuantizedTest, SigmoidAndLeakyRelu) {
  const auto y = RunDomain(
      "(uint8[2, 2] a, float as, uint8 az, float ys, uint8 yz) => "
      "(uint8[2, 2] y, uint8[2, 2] z) { y = "
      "com.microsoft.QLinearSigmoid(a, as, az, ys, yz) z = "
      "com.microsoft.QLinearLeakyRelu<alpha = 0.5>(a, as, az, ys, yz) } ",
      {{"a", {DType::kUint8, {2, 2}, {0, 50, 130, 255}}},
       {"as", Floats({}, {0.05})},
       {"az", {DType::kUint8, Shape(), {120}}},
       {"ys", Floats({}, {0.01})},
       {"yz", {DType::kUint8, Shape(), {100}}}});
  ASSERT_TRUE(y.ok()) << y.status();
  ExpectNumbers((*y)[0], {2, 2}, {100, 103, 162, 200});
  ExpectNumbers((*y)[1], {2, 2}, {0, 0, 150, 255});
}

TEST(LowerQuantizedTest, SoftmaxTakesTheAxisOfItsOperatorSet) {
  const auto y = RunDomain(
      "(uint8[2, 2] a, float as, uint8 az, float ys, uint8 yz) => "
      "(uint8[2, 2] y, uint8[2, 2] z) { y = "
      "com.microsoft.QLinearSoftmax<axis = 1, opset = 13>(a, as, az, ys, "
      "yz) z = com.microsoft.QLinearSoftmax<axis = 0, opset = 12>(a, as, "
      "az, ys, yz) } ",
      {{"a", {DType::kUint8, {2, 2}, {0, 50, 130, 255}}},
       {"as", Floats({}, {0.02})},
       {"az", {DType::kUint8, Shape(), {120}}},
       {"ys", Floats({}, {0.00390625})},
       {"yz", {DType::kUint8, Shape(), {0}}}});
  ASSERT_TRUE(y.ok()) << y.status();
  ExpectNumbers((*y)[0], {2, 2}, {69, 187, 19, 237});
  ExpectNumbers((*y)[1], {2, 2}, {1, 4, 19, 232});
}

TEST(LowerQuantizedTest, PoolsAverageRealNumbers) {
  const auto y = RunDomain(
      "(uint8[1, 2, 2, 2] a, float as, uint8 az, float ys, uint8 yz) => "
      "(uint8[1, 2, 1, 1] y, uint8[1, 2, 2, 1] z) { y = "
      "com.microsoft.QLinearGlobalAveragePool(a, as, az, ys, yz) z = "
      "com.microsoft.QLinearAveragePool<kernel_shape = [1, 2]>(a, as, az, "
      "ys, yz) } ",
      {{"a", {DType::kUint8, {1, 2, 2, 2}, {10, 20, 30, 40, 200, 100, 50, 0}}},
       {"as", Floats({}, {0.1})},
       {"az", {DType::kUint8, Shape(), {20}}},
       {"ys", Floats({}, {0.05})},
       {"yz", {DType::kUint8, Shape(), {30}}}});
  ASSERT_TRUE(y.ok()) << y.status();
  ExpectNumbers((*y)[0], {1, 2, 1, 1}, {40, 165});
  ExpectNumbers((*y)[1], {1, 2, 2, 1}, {20, 60, 255, 40});
}

TEST(LowerQuantizedTest, PoolsMayHaveChannelsLast) {
  const auto y = RunDomain(
      "(uint8[1, 2, 2, 2] a, float as, uint8 az, float ys, uint8 yz) => "
      "(uint8[1, 1, 1, 2] y) { y = "
      "com.microsoft.QLinearGlobalAveragePool<channels_last = 1>(a, as, "
      "az, ys, yz) } ",
      {{"a", {DType::kUint8, {1, 2, 2, 2}, {10, 200, 20, 100, 30, 50, 40, 0}}},
       {"as", Floats({}, {0.1})},
       {"az", {DType::kUint8, Shape(), {20}}},
       {"ys", Floats({}, {0.05})},
       {"yz", {DType::kUint8, Shape(), {30}}}});
  ASSERT_TRUE(y.ok()) << y.status();
  ExpectNumbers((*y)[0], {1, 1, 1, 2}, {40, 165});
}

TEST(LowerQuantizedTest, PartsOfOneScaleAreJoined) {
  const auto y = RunDomain(
      "(float ys, uint8 yz, uint8[2, 2] a, float as, uint8 az, uint8[2, "
      "1] b, float bs, uint8 bz) => (uint8[2, 3] y) { y = "
      "com.microsoft.QLinearConcat<axis = 1>(ys, yz, a, as, az, b, bs, "
      "bz) } ",
      {{"ys", Floats({}, {0.1})},
       {"yz", {DType::kUint8, Shape(), {100}}},
       {"a", {DType::kUint8, {2, 2}, {0, 50, 130, 255}}},
       {"as", Floats({}, {0.05})},
       {"az", {DType::kUint8, Shape(), {120}}},
       {"b", {DType::kUint8, {2, 1}, {10, 200}}},
       {"bs", Floats({}, {0.1})},
       {"bz", {DType::kUint8, Shape(), {90}}}});
  ASSERT_TRUE(y.ok()) << y.status();
  ExpectNumbers((*y)[0], {2, 3}, {40, 65, 20, 105, 168, 210});
}

TEST(LowerQuantizedTest, MeansAndChoices) {
  const auto y = RunDomain(
      "(uint8[2, 2] a, float as, uint8 az, float ys, uint8 yz, bool[2, 2] "
      "c, uint8[2] b, float bs, uint8 bz) => (uint8[2] y, uint8[2, 2] z) "
      "{ y = com.microsoft.QLinearReduceMean<axes = [1], keepdims = 0>(a, "
      "as, az, ys, yz) z = com.microsoft.QLinearWhere(c, a, as, az, b, "
      "bs, bz, ys, yz) } ",
      {{"a", {DType::kUint8, {2, 2}, {0, 50, 130, 255}}},
       {"as", Floats({}, {0.05})},
       {"az", {DType::kUint8, Shape(), {120}}},
       {"ys", Floats({}, {0.1})},
       {"yz", {DType::kUint8, Shape(), {100}}},
       {"c", {DType::kBool, {2, 2}, {1, 0, 0, 1}}},
       {"b", {DType::kUint8, {2}, {10, 200}}},
       {"bs", Floats({}, {0.1})},
       {"bz", {DType::kUint8, Shape(), {90}}}});
  ASSERT_TRUE(y.ok()) << y.status();
  ExpectNumbers((*y)[0], {2}, {52, 136});
  ExpectNumbers((*y)[1], {2, 2}, {40, 210, 20, 168});
}

TEST(LowerQuantizedTest, CodesOfTheDomainAreThoseOfOnnx) {
  const auto y = RunDomain(
      "(float[3] x, float s, uint8 z) => (float[3] y) { c = "
      "com.microsoft.QuantizeLinear(x, s, z) y = "
      "com.microsoft.DequantizeLinear(c, s, z) } ",
      {{"x", Floats({3}, {-1, 0.26, 9})},
       {"s", Floats({}, {0.1})},
       {"z", {DType::kUint8, Shape(), {5}}}});
  ASSERT_TRUE(y.ok()) << y.status();
  ExpectNumbers((*y)[0], {3}, {-0.5, 0.3, 9});
}

TEST(LowerQuantizedTest, ScalesPerChannelAreRefused) {
  EXPECT_THAT(
      Refusal("(uint8[2, 2] a, float[2] s, uint8 z) => (uint8[2, 2] y) { y = "
              "com.microsoft.QLinearSigmoid(a, s, z, s, z) } "),
      HasSubstr("the scale must be one number, not [2]"));
}

TEST(LowerQuantizedTest, PartsNeedThreeInputsEach) {
  EXPECT_THAT(Refusal("(uint8[2] a, float s, uint8 z) => (uint8[2] y) { y = "
                      "com.microsoft.QLinearConcat<axis = 0>(s, z, a, s) } "),
              HasSubstr("has 4 inputs and needs 2 and 3 more for each part"));
}

}  // namespace
}  // namespace gpupool::engine::onnx_import
