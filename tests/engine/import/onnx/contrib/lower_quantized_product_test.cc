#include <gtest/gtest.h>

#include "tests/engine/import/onnx/operators/domain_case.h"
#include "tests/engine/import/onnx/operators/lowering_case.h"

namespace gpupool::engine::onnx_import {
namespace {

const HostTensor kLeft =
    Tensor(DType::kUint8, {2, 3}, {0, 200, 100, 255, 3, 77});
const HostTensor kQuantizedProductRight =
    Tensor(DType::kInt8, {3, 2}, {1, -2, 100, -128, -7, 5});
const HostTensor kQuantizedProductRows =
    Floats({2, 20},
           {-0.98, 0.62,  -0.13, -0.13, 0.12, -0.44, 0.77,  -0.58, 0.09,  -0.66,
            0.23,  0.8,   0.77,  -0.73, 0.25, 0.79,  -0.6,  -0.17, 0.43,  0.48,
            -0.1,  0.28,  0.34,  -0.29, 0.3,  0.15,  0.39,  0.02,  -0.33, -0.13,
            0.84,  -0.62, -0.7,  -0.98, 0.7,  0.98,  -0.53, -0.47, -0.6,  0.2});
const HostTensor kBlocks =
    Tensor(DType::kUint8, {2, 2, 8},
           {175, 130, 167, 237, 172, 135, 130, 168, 87,  168, 147,
            197, 121, 0,   131, 215, 162, 166, 97,  82,  179, 26,
            212, 238, 241, 38,  27,  224, 97,  78,  100, 172});
const HostTensor kBlockScales = Floats({4}, {0.25, 0.54, 0.69, 0.75});

// NumPy: (A - az) (B - bz) * as * bs + i.
TEST(LowerQuantizedProductTest, ScalesAndZeroPointsMayBePerColumn) {
  ExpectOutputs(
      "y = com.microsoft.MatMulIntegerToFloat(a, b, as, bs, az, bz, i)",
      {{"a", kLeft},
       {"b", kQuantizedProductRight},
       {"as", Floats({}, {0.1})},
       {"bs", Floats({2}, {0.5, 2})},
       {"az", Tensor(DType::kUint8, {}, {100})},
       {"bz", Tensor(DType::kInt8, {2}, {1, -3})},
       {"i", Floats({2}, {1, -1})}},
      {{"y", Floats({2, 2}, {496, -2521, -469.95, 2418.2})}});
}

// NumPy: codes of x with scale 4 / 255 and zero point rint(1 / scale).
TEST(LowerQuantizedProductTest, TheLeftSideIsQuantisedByItsRange) {
  ExpectOutputs(
      "y = com.microsoft.DynamicQuantizeMatMul(x, b, bs, bz)",
      {{"x", Floats({2, 3}, {-1, 0.5, 1.9, 0.25, 3, -0.75})},
       {"b", kQuantizedProductRight},
       {"bs", Floats({}, {0.5})},
       {"bz", Tensor(DType::kInt8, {}, {2})}},
      {{"y", Floats({2, 2}, {16.55686, -27.77255, 150.0706, -196.3765})}});
}

TEST(LowerQuantizedProductTest, AValueOfZerosHasAScale) {
  ExpectOutputs("y = com.microsoft.DynamicQuantizeMatMul(x, b, bs)",
                {{"x", Floats({1, 3}, {0, 0, 0})},
                 {"b", kQuantizedProductRight},
                 {"bs", Floats({}, {0.5})}},
                {{"y", Floats({1, 2}, {0, 0})}});
}

// NumPy: alpha * as * bs * ((A - az) (B - bz) + C).
TEST(LowerQuantizedProductTest, QGemmGivesRealNumbersWithoutAScale) {
  ExpectOutputs("y = com.microsoft.QGemm<alpha = 0.5>(a, as, az, b, bs, bz, c)",
                {{"a", kLeft},
                 {"as", Floats({}, {0.1})},
                 {"az", Tensor(DType::kUint8, {}, {100})},
                 {"b", kQuantizedProductRight},
                 {"bs", Floats({}, {0.5})},
                 {"bz", Tensor(DType::kInt8, {}, {2})},
                 {"c", Tensor(DType::kInt32, {2}, {10, -20})}},
                {{"y", Floats({2, 2}, {247.75, -315.5, -236.1, 297.525})}});
}

TEST(LowerQuantizedProductTest, QGemmGivesCodesWithAScale) {
  ExpectOutputs(
      "y = com.microsoft.QGemm<alpha = 0.5, transB = 1>(a, as, az, b, bs, "
      "bz, c, ys, yz)",
      {{"a", kLeft},
       {"as", Floats({}, {0.1})},
       {"az", Tensor(DType::kUint8, {}, {100})},
       {"b", Tensor(DType::kInt8, {2, 3}, {1, 100, -7, -2, -128, 5})},
       {"bs", Floats({}, {0.5})},
       {"bz", Tensor(DType::kInt8, {}, {2})},
       {"c", Tensor(DType::kInt32, {2}, {10, -20})},
       {"ys", Floats({}, {3})},
       {"yz", Tensor(DType::kUint8, {}, {100})}},
      {{"y", Tensor(DType::kUint8, {2, 2}, {183, 0, 21, 199})}});
}

// NumPy: x W^T + i, where W has (code - zero) * scale of the first 20 cells of
// two blocks per column.
TEST(LowerQuantizedProductTest, WeightsOf4BitsHaveTheLowHalfFirst) {
  ExpectOutputs(
      "y = com.microsoft.MatMulNBits<K = 20, N = 2, bits = 4, block_size = "
      "16>(x, b, s, z, , i)",
      {{"x", kQuantizedProductRows},
       {"b", kBlocks},
       {"s", kBlockScales},
       {"z", Tensor(DType::kUint8, {2}, {195, 24})},
       {"i", Floats({2}, {1, -1})}},
      {{"y", Floats({2, 2}, {0.3779001, -3.4207, 7.2576, -0.8866001})}});
}

TEST(LowerQuantizedProductTest, TheZeroPointIsTheMiddleByDefault) {
  ExpectOutputs(
      "y = com.microsoft.MatMulNBits<K = 20, N = 2, bits = 4, block_size = "
      "16>(x, b, s)",
      {{"x", kQuantizedProductRows}, {"b", kBlocks}, {"s", kBlockScales}},
      {{"y", Floats({2, 2}, {-1.3072, -3.1557, 2.1711, 7.4634})}});
}

TEST(LowerQuantizedProductTest, ZeroPointsMayBeRealNumbers) {
  ExpectOutputs(
      "y = com.microsoft.MatMulNBits<K = 20, N = 2, bits = 8, block_size = "
      "16>(x, b, s, z)",
      {{"x", kQuantizedProductRows},
       {"b",
        Tensor(DType::kUint8, {2, 2, 16},
               {189, 124, 143, 210, 152, 53,  223, 224, 143, 118, 163, 206, 198,
                205, 70,  233, 7,   127, 108, 156, 165, 143, 15,  48,  134, 128,
                52,  237, 38,  232, 161, 5,   97,  169, 42,  83,  220, 34,  240,
                35,  110, 203, 12,  245, 157, 133, 179, 98,  198, 130, 27,  212,
                218, 191, 182, 16,  20,  54,  87,  222, 20,  126, 245, 168})},
       {"s", kBlockScales},
       {"z", Floats({4}, {100.5, 128, 90, 7})}},
      {{"y", Floats({2, 2}, {78.09565, 198.6999, 31.29425, -171.1392})}});
}

constexpr char kQuantizedProductPorts[] =
    "(float[2, 20] x, uint8[2, 2, 8] b, float[4] s) => (float[2, 2] y)";
const RefusedNodes kQuantizedProductRefused[] = {
    {"BitsOfOtherWidthsAreRefused", kQuantizedProductPorts,
     "y = com.microsoft.MatMulNBits<K = 20, N = 2, bits = 3, block_size = "
     "16>(x, b, s)",
     "bits = 3 is not; 4 and 8 are"},
    {"BlocksAreAPowerOfTwo", kQuantizedProductPorts,
     "y = com.microsoft.MatMulNBits<K = 20, N = 2, bits = 4, block_size = "
     "20>(x, b, s)",
     "block_size 20 must be a power of two and at least 16"},
    {"KIsTheWidthOfTheLeftSide", kQuantizedProductPorts,
     "y = com.microsoft.MatMulNBits<K = 21, N = 2, bits = 4, block_size = "
     "16>(x, b, s)",
     "its last dimension must be K, 21"},
    {"SizesThatWouldOverflowAreRefused", kQuantizedProductPorts,
     "y = com.microsoft.MatMulNBits<K = 140737488355328, N = "
     "140737488355328, bits = 4, block_size = 16>(x, b, s)",
     "are over the limit of"},
    {"WeightsOfAnotherSizeAreRefused", kQuantizedProductPorts,
     "y = com.microsoft.MatMulNBits<K = 20, N = 3, bits = 4, block_size = "
     "16>(x, b, s)",
     "the weights are [2, 2, 8] and must have the 48 numbers of [3, 2, 8]"},
    {"WeightsOfAnotherTypeAreRefused",
     "(float[2, 20] x, int8[2, 2, 8] b, float[4] s) => (float[2, 2] y)",
     "y = com.microsoft.MatMulNBits<K = 20, N = 2, bits = 4, block_size = "
     "16>(x, b, s)",
     "the weights are int8 and must be uint8"},
    {"ZeroPointsOfAnotherSizeAreRefused",
     "(float[2, 20] x, uint8[2, 2, 8] b, float[4] s, uint8[4] z) => (float[2, "
     "2] y)",
     "y = com.microsoft.MatMulNBits<K = 20, N = 2, bits = 4, block_size = "
     "16>(x, b, s, z)",
     "the zero points are [4] and must have the 2 numbers of [2, 1]"},
    {"NegativeSizesAreRefused", kQuantizedProductPorts,
     "y = com.microsoft.MatMulNBits<K = -1, N = 2, bits = 4, block_size = "
     "16>(x, b, s)",
     "K -1 and N 2 must be from 1 to"},
    {"GroupIndicesAreRefused",
     "(float[2, 20] x, uint8[2, 2, 8] b, float[4] s, int32[20] g) => "
     "(float[2, 2] y)",
     "y = com.microsoft.MatMulNBits<K = 20, N = 2, bits = 4, block_size = "
     "16>(x, b, s, , g)",
     "the input g_idx is not"},
};

TEST(LowerQuantizedProductTest, RefusesWhatDoesNotFit) {
  ExpectRefusals(kQuantizedProductRefused);
}

}  // namespace
}  // namespace gpupool::engine::onnx_import
