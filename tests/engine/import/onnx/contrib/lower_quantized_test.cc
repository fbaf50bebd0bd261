#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/engine/import/onnx/operators/domain_case.h"
#include "tests/engine/import/onnx/operators/lowering_case.h"

namespace gpupool::engine::onnx_import {
namespace {

HostTensor Codes(std::vector<int64_t> dims, std::vector<double> numbers) {
  return Tensor(DType::kUint8, std::move(dims), std::move(numbers));
}

const HostTensor kCodes = Codes({2, 2}, {0, 50, 130, 255});

// Returns codes with their scale and zero point: "a", "as" and "az".
NamedTensors Quantized(const std::string& name, const HostTensor& codes,
                       double scale, double zero_point) {
  return {{name, codes},
          {name + "s", Floats({}, {scale})},
          {name + "z", Codes({}, {zero_point})}};
}

// Returns the scale and the zero point of the result.
NamedTensors Result(double scale, double zero_point) {
  return {{"ys", Floats({}, {scale})}, {"yz", Codes({}, {zero_point})}};
}

NamedTensors Joined(const std::vector<NamedTensors>& parts) {
  NamedTensors all;
  for (const NamedTensors& part : parts) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

// NumPy: clip(rint(r / ys) + yz, 0, 255) of the real result r.
TEST(LowerQuantizedTest, AddRoundsTheRealResult) {
  ExpectOutputs(
      "y = com.microsoft.QLinearAdd(a, as, az, b, bs, bz, ys, yz)",
      Joined({Quantized("a", kCodes, 0.05, 120),
              Quantized("b", Codes({2}, {10, 200}), 0.1, 90), Result(0.2, 60)}),
      {{"y", Codes({2, 2}, {0, 98, 22, 149})}});
}

// NumPy: clip(rint(r / ys) + yz, 0, 255) of the real result r.
TEST(LowerQuantizedTest, MulRoundsTheRealResult) {
  ExpectOutputs(
      "y = com.microsoft.QLinearMul(a, as, az, b, bs, bz, ys, yz)",
      Joined({Quantized("a", kCodes, 0.05, 120),
              Quantized("b", Codes({2}, {10, 200}), 0.1, 90), Result(0.2, 60)}),
      {{"y", Codes({2, 2}, {255, 0, 40, 255})}});
}

TEST(LowerQuantizedTest, ZeroPointsMayBeAbsent) {
  ExpectOutputs("y = com.microsoft.QLinearAdd(a, as, , b, bs, , ys)",
                {{"a", Tensor(DType::kInt8, {2, 2}, {0, 50, -124, -1})},
                 {"as", Floats({}, {0.05})},
                 {"b", Tensor(DType::kInt8, {2}, {10, -20})},
                 {"bs", Floats({}, {0.1})},
                 {"ys", Floats({}, {0.2})}},
                {{"y", Tensor(DType::kInt8, {2, 2}, {5, 2, -26, -10})}});
}

TEST(LowerQuantizedTest, SigmoidAndLeakyRelu) {
  ExpectOutputs(
      "y = com.microsoft.QLinearSigmoid(a, as, az, ys, yz) z = "
      "com.microsoft.QLinearLeakyRelu<alpha = 0.5>(a, as, az, ys, yz)",
      Joined({Quantized("a", kCodes, 0.05, 120), Result(0.01, 100)}),
      {{"y", Codes({2, 2}, {100, 103, 162, 200})},
       {"z", Codes({2, 2}, {0, 0, 150, 255})}});
}

TEST(LowerQuantizedTest, SoftmaxTakesTheAxisOfItsOperatorSet) {
  ExpectOutputs(
      "y = com.microsoft.QLinearSoftmax<axis = 1, opset = 13>(a, as, az, "
      "ys, yz) z = com.microsoft.QLinearSoftmax<axis = 0, opset = 12>(a, "
      "as, az, ys, yz)",
      Joined({Quantized("a", kCodes, 0.02, 120), Result(0.00390625, 0)}),
      {{"y", Codes({2, 2}, {69, 187, 19, 237})},
       {"z", Codes({2, 2}, {1, 4, 19, 232})}});
}

TEST(LowerQuantizedTest, PoolsAverageRealNumbers) {
  ExpectOutputs(
      "y = com.microsoft.QLinearGlobalAveragePool(a, as, az, ys, yz) z = "
      "com.microsoft.QLinearAveragePool<kernel_shape = [1, 2]>(a, as, "
      "az, ys, yz)",
      Joined({Quantized("a",
                        Codes({1, 2, 2, 2}, {10, 20, 30, 40, 200, 100, 50, 0}),
                        0.1, 20),
              Result(0.05, 30)}),
      {{"y", Codes({1, 2, 1, 1}, {40, 165})},
       {"z", Codes({1, 2, 2, 1}, {20, 60, 255, 40})}});
}

TEST(LowerQuantizedTest, PoolsMayHaveChannelsLast) {
  ExpectOutputs(
      "y = com.microsoft.QLinearGlobalAveragePool<channels_last = 1>(a, "
      "as, az, ys, yz)",
      Joined({Quantized("a",
                        Codes({1, 2, 2, 2}, {10, 200, 20, 100, 30, 50, 40, 0}),
                        0.1, 20),
              Result(0.05, 30)}),
      {{"y", Codes({1, 1, 1, 2}, {40, 165})}});
}

TEST(LowerQuantizedTest, PartsOfOneScaleAreJoined) {
  ExpectOutputs(
      "y = com.microsoft.QLinearConcat<axis = 1>(ys, yz, a, as, az, b, "
      "bs, bz)",
      Joined({Result(0.1, 100), Quantized("a", kCodes, 0.05, 120),
              Quantized("b", Codes({2, 1}, {10, 200}), 0.1, 90)}),
      {{"y", Codes({2, 3}, {40, 65, 20, 105, 168, 210})}});
}

TEST(LowerQuantizedTest, MeansAndChoices) {
  ExpectOutputs(
      "y = com.microsoft.QLinearReduceMean<axes = [1], keepdims = 0>(a, "
      "as, az, ys, yz) z = com.microsoft.QLinearWhere(c, a, as, az, b, "
      "bs, bz, ys, yz)",
      Joined({Quantized("a", kCodes, 0.05, 120), Result(0.1, 100),
              NamedTensors{{"c", Tensor(DType::kBool, {2, 2}, {1, 0, 0, 1})}},
              Quantized("b", Codes({2}, {10, 200}), 0.1, 90)}),
      {{"y", Codes({2}, {52, 136})}, {"z", Codes({2, 2}, {40, 210, 20, 168})}});
}

TEST(LowerQuantizedTest, CodesOfTheDomainAreThoseOfOnnx) {
  ExpectOutputs(
      "c = com.microsoft.QuantizeLinear(x, s, z) y = "
      "com.microsoft.DequantizeLinear(c, s, z)",
      {{"x", Floats({3}, {-1, 0.26, 9})},
       {"s", Floats({}, {0.1})},
       {"z", Codes({}, {5})}},
      {{"y", Floats({3}, {-0.5, 0.3, 9})}});
}

const RefusedNodes kQuantizedRefused[] = {
    {"ScalesPerChannelAreRefused",
     "(uint8[2, 2] a, float[2] s, uint8 z) => (uint8[2, 2] y)",
     "y = com.microsoft.QLinearSigmoid(a, s, z, s, z)",
     "the scale must be one number, not [2]"},
    {"PartsNeedThreeInputsEach",
     "(uint8[2] a, float s, uint8 z) => (uint8[2] y)",
     "y = com.microsoft.QLinearConcat<axis = 0>(s, z, a, s)",
     "has 4 inputs and needs 2 and 3 more for each part"},
};

TEST(LowerQuantizedTest, RefusesWhatDoesNotFit) {
  ExpectRefusals(kQuantizedRefused);
}

}  // namespace
}  // namespace gpupool::engine::onnx_import
