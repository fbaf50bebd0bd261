#include <gtest/gtest.h>

#include "tests/engine/import/onnx/operators/domain_case.h"
#include "tests/engine/import/onnx/operators/lowering_case.h"

namespace gpupool::engine::onnx_import {
namespace {

const HostTensor kActivationRows = Floats({2, 2}, {-2, -0.5, 0.5, 2});

// NumPy: t/2 * (1 + erf(t / sqrt(2))) of t = x + b.
TEST(LowerFusedActivationTest, BiasGeluIsExact) {
  ExpectOutputs(
      "y = com.microsoft.BiasGelu(x, b)",
      {{"x", kActivationRows}, {"b", Floats({2}, {0.25, -1})}},
      {{"y", Floats({2, 2}, {-0.07010352, -0.1002108, 0.5800295, 0.8413447})}});
}

// NumPy: t/2 * (1 + tanh(sqrt(2/pi) * (t + 0.044715 t^3))) of t = x + b.
TEST(LowerFusedActivationTest, FastGeluApproximatesWithTanh) {
  ExpectOutputs(
      "y = com.microsoft.FastGelu(x, b)",
      {{"x", kActivationRows}, {"b", Floats({2}, {0.25, -1})}},
      {{"y", Floats({2, 2}, {-0.07020464, -0.1004284, 0.5799606, 0.841192})}});
}

TEST(LowerFusedActivationTest, FastGeluNeedsNoBias) {
  ExpectOutputs(
      "y = com.microsoft.FastGelu(x)", {{"x", kActivationRows}},
      {{"y", Floats({2, 2}, {-0.04540235, -0.154286, 0.345714, 1.954598})}});
}

TEST(LowerFusedActivationTest, GeluOfTheDomainIsExact) {
  ExpectOutputs(
      "y = com.microsoft.Gelu(x)", {{"x", kActivationRows}},
      {{"y", Floats({2, 2}, {-0.04550027, -0.1542688, 0.3457312, 1.9545})}});
}

// NumPy: x / (1 + exp(-alpha x)). The default of alpha is 1.702.
TEST(LowerFusedActivationTest, QuickGeluHasAFactor) {
  ExpectOutputs(
      "y = com.microsoft.QuickGelu<alpha = 1.5>(x) z = "
      "com.microsoft.QuickGelu(x)",
      {{"x", kActivationRows}},
      {{"y", Floats({2, 2}, {-0.09485175, -0.1604106, 0.3395894, 1.905148})},
       {"z", Floats({2, 2}, {-0.06434137, -0.1496116, 0.3503884, 1.935659})}});
}

TEST(LowerFusedActivationTest, BiasAddTakesABiasAndASum) {
  ExpectOutputs(
      "y = com.microsoft.BiasAdd(x, b, s)",
      {{"x", Floats({1, 2, 3}, {-0.83, -0.53, 0.6, 0.16, -0.81, -0.13})},
       {"b", Floats({3}, {-0.04, -0.68, 0.47})},
       {"s", Floats({1, 2, 3}, {-0.77, -0.22, 0.03, -0.14, 0.17, 0.48})}},
      {{"y", Floats({1, 2, 3}, {-1.64, -1.43, 1.1, -0.02, -1.32, 0.82})}});
}

// NumPy: left * gelu(right) of x + b.
TEST(LowerFusedActivationTest, BiasSplitGeluGatesTheLeftHalf) {
  ExpectOutputs("y = com.microsoft.BiasSplitGelu(x, b)",
                {{"x", Floats({1, 2, 4}, {1.83, -0.86, 0.59, 0.78, -0.83, -1.99,
                                          1.89, -0.81})},
                 {"b", Floats({4}, {-0.37, 0.78, 0.17, -0.06})}},
                {{"y", Floats({1, 2, 2},
                              {0.8614632, -0.0440201, -2.423303, 0.2022765})}});
}

TEST(LowerFusedActivationTest, BiasSoftmaxFlattensFromItsAxisOn) {
  ExpectOutputs(
      "y = com.microsoft.BiasSoftmax<axis = 1, is_inner_broadcast = 1>(x, "
      "b)",
      {{"x",
        Floats({2, 2, 2}, {1.09, -1.88, 0.83, -0.5, -1.64, 0.64, 1.73, -1.17})},
       {"b", Floats({2, 1, 2}, {0.26, -0.4, 0.48, 0.44})}},
      {{"y",
        Floats({2, 2, 2}, {0.5254952, 0.01393413, 0.4051839, 0.05538679,
                           0.02438483, 0.2290547, 0.7090747, 0.03748575})}});
}

const RefusedNodes kActivationRefused[] = {
    {"ABiasOfAnotherWidthIsRefused",
     "(float[2, 3] x, float[2] b) => (float[2, 3] y)",
     "y = com.microsoft.BiasGelu(x, b)", "[2, 3] and [2] do not broadcast"},
    {"ABiasThatWouldWidenIsRefused",
     "(float[1, 3] x, float[2, 3] b) => (float[2, 3] y)",
     "y = com.microsoft.FastGelu(x, b)",
     "the bias [2, 3] does not broadcast to [1, 3]"},
    {"AnOddAxisHasNoHalves", "(float[2, 3] x, float[3] b) => (float[2, 1] y)",
     "y = com.microsoft.BiasSplitGelu(x, b)",
     "the last axis has 3 cells and must be even"},
};

TEST(LowerFusedActivationTest, RefusesWhatDoesNotFit) {
  ExpectRefusals(kActivationRefused);
}

}  // namespace
}  // namespace gpupool::engine::onnx_import
