#include <gtest/gtest.h>

#include "tests/engine/import/onnx/operators/domain_case.h"
#include "tests/engine/import/onnx/operators/lowering_case.h"

namespace gpupool::engine::onnx_import {
namespace {

const HostTensor kProductRight =
    Floats({2, 2, 3}, {-0.21, -0.3, -0.3, -0.04, -0.81, 0.09, 0.84, 0.13, 0.49,
                       0.89, 0.68, 0.49});
const HostTensor kImage = Floats(
    {1, 1, 3, 3}, {-0.82, -0.66, 0.03, -0.19, 0.33, -0.33, -0.61, 0.86, -0.51});
const HostTensor kFilter = Floats({1, 1, 2, 2}, {-0.71, -0.44, -0.32, -0.55});

TEST(LowerFusedProductTest, FusedMatMulScalesAndTransposes) {
  ExpectOutputs(
      "y = com.microsoft.FusedMatMul<alpha = 0.5, transA = 1>(a, b)",
      {{"a", Floats({2, 2, 2},
                    {-0.75, -0.04, 0.07, 0.55, -0.21, -0.96, 0.06, -0.59})},
       {"b", kProductRight}},
      {{"y", Floats({2, 2, 3}, {0.07735, 0.08415, 0.11565, -0.0068, -0.21675,
                                0.03075, -0.0615, 0.00675, -0.03675, -0.66575,
                                -0.263, -0.37975})}});
}

// The first axis of A comes before the last one.
TEST(LowerFusedProductTest, FusedMatMulMovesTheBatch) {
  ExpectOutputs(
      "y = com.microsoft.FusedMatMul<transBatchA = 1>(a, b)",
      {{"a", Floats({3, 2, 2}, {-0.75, -0.04, 0.07, 0.55, -0.21, -0.96, 0.06,
                                -0.59, 0.48, -0.22, -0.24, 0.82})},
       {"b", kProductRight}},
      {{"y", Floats({2, 3, 3},
                    {0.1591, 0.2574, 0.2214, 0.0825, 0.8406, -0.0234,
                     -0.09199999, 0.0342, -0.1638, 0.5483, 0.3831, 0.3038,
                     -0.4747, -0.3934, -0.2597, 0.5282, 0.5264, 0.2842})}});
}

TEST(LowerFusedProductTest, FusedGemmActivates) {
  ExpectOutputs(
      "y = com.microsoft.FusedGemm<alpha = 2.0, beta = 0.5, transB = 1, "
      "activation = \"LeakyRelu\", activation_alpha = 0.25>(a, b, c)",
      {{"a", Floats({2, 3}, {0.63, 0.64, -0.49, -0.04, -0.31, -0.48})},
       {"b", Floats({2, 3}, {0.14, -0.36, 0.24, 0.16, -0.79, -0.12})},
       {"c", Floats({2}, {-0.22, 0.41})}},
      {{"y", Floats({2, 2}, {-0.1574, -0.12175, -0.0321, 0.7972})}});
}

TEST(LowerFusedProductTest, FusedConvAddsASumBeforeTheActivation) {
  ExpectOutputs(
      "y = com.microsoft.FusedConv<activation = \"Relu\">(x, w, b, z)",
      {{"x", kImage},
       {"w", kFilter},
       {"b", Floats({1}, {0.34})},
       {"z", Floats({1, 1, 2, 2}, {0.07, 0.87, -0.75, -0.17})}},
      {{"y", Floats({1, 1, 2, 2}, {1.1619, 1.7413, 0, 0.08619998})}});
}

TEST(LowerFusedProductTest, FusedConvClips) {
  ExpectOutputs(
      "y = com.microsoft.FusedConv<activation = \"Clip\", "
      "activation_params = [-0.25, 0.25]>(x, w, b)",
      {{"x", kImage}, {"w", kFilter}, {"b", Floats({1}, {0.34})}},
      {{"y", Floats({1, 1, 2, 2}, {0.25, 0.25, 0.05189997, 0.25})}});
}

TEST(LowerFusedProductTest, NhwcConvHasChannelsLast) {
  ExpectOutputs(
      "y = com.microsoft.NhwcConv(x, w) z = "
      "com.microsoft.NhwcFusedConv<activation = \"Relu\">(x, w)",
      {{"x", Floats({1, 3, 3, 2},
                    {0.77, 1, -0.71, 0.07, 0.76, -0.89, 0.18, -0.65, 0.54, 0.88,
                     0.08, -0.98, -0.87, -0.17, 0.69, -0.53, 0.34, -0.19})},
       {"w", Floats({2, 2, 2, 2},
                    {-0.47, 0.41, -0.38, -0.26, 0.53, -0.01, 0.57, 0.03, -0.68,
                     -0.11, 0.75, 0.13, 0.93, -1, -0.32, 0.54})}},
      {{"y", Floats({1, 2, 2, 2}, {-0.6766, 1.3029, 0.9375, 0.9589, -0.1781,
                                   -2.4609, -0.4032, 2.0511})},
       {"z",
        Floats({1, 2, 2, 2}, {0, 1.3029, 0.9375, 0.9589, 0, 0, 0, 2.0511})}});
}

const RefusedNodes kProductRefused[] = {
    {"AnUnknownActivationIsRefused",
     "(float[2, 2] a, float[2, 2] b) => (float[2, 2] y)",
     "y = com.microsoft.FusedGemm<activation = \"Erf\">(a, b)",
     "the activation 'Erf' is not"},
    {"ClipNeedsBothEnds",
     "(float[1, 1, 3, 3] x, float[1, 1, 2, 2] w) => (float[1, 1, 2, 2] y)",
     "y = com.microsoft.FusedConv<activation = \"Clip\", "
     "activation_params = [1.0]>(x, w)",
     "the activation Clip needs a minimum and a maximum"},
};

TEST(LowerFusedProductTest, RefusesWhatDoesNotFit) {
  ExpectRefusals(kProductRefused);
}

}  // namespace
}  // namespace gpupool::engine::onnx_import
