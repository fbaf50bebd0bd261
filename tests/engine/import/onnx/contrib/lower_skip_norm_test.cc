#include <gtest/gtest.h>

#include "tests/engine/import/onnx/operators/domain_case.h"
#include "tests/engine/import/onnx/operators/lowering_case.h"

namespace gpupool::engine::onnx_import {
namespace {

const HostTensor kSkipNormTokens =
    Floats({2, 2, 3}, {-0.56, 0.66, 0.32, 0.37, 0.64, -0.14, 0.52, 0.76, -0.8,
                       0.7, -0.21, -0.04});
const HostTensor kSkip =
    Floats({2, 2, 3}, {-0.71, 0.4, -0.42, 0.74, -0.45, 0.12, -0.2, 0.23, -0.61,
                       -0.64, 0.49, 0.5});
const HostTensor kSum =
    Floats({2, 2, 3}, {-1.02, 1.27, 0.84, 1.36, 0.4, 0.92, 0.57, 1.2,
                       -0.4700001, 0.31, 0.49, 1.4});
const HostTensor kIds = Tensor(DType::kInt32, {2, 2}, {2, 0, 1, 2});
const HostTensor kWords = Floats(
    {3, 3}, {0.57, 0.58, -0.89, -0.26, -0.83, -0.61, -0.57, 0.72, -0.75});
const HostTensor kPositions =
    Floats({4, 3}, {-0.41, -0.01, 0.7, 0.93, 0.42, -0.57, 0.09, 0.41, -0.9,
                    0.36, -0.26, 0.18});

// NumPy: (t - mean) / sqrt(variance + epsilon) * g + b of t = x + s + i.
TEST(LowerSkipNormTest, TheSumIsNormalisedAndAnOutput) {
  ExpectOutputs(
      "y, , , z = com.microsoft.SkipLayerNormalization<epsilon = 0.01>(x, "
      "s, g, b, i)",
      {{"x", kSkipNormTokens},
       {"s", kSkip},
       {"g", Floats({3}, {1.07, 1.42, 0.71})},
       {"b", Floats({3}, {0.7, -0.66, 0.93})},
       {"i", Floats({3}, {0.25, 0.21, 0.94})}},
      {{"y", Floats({2, 2, 3}, {-0.7819297, 0.6290001, 1.268836, 1.933183,
                                -2.390078, 0.9767588, 0.9101619, 0.9045969,
                                0.008248389, -0.229229, -1.368837, 1.90101})},
       {"z", kSum}});
}

TEST(LowerSkipNormTest, ASkipMayLackTheBatch) {
  ExpectOutputs(
      "y = com.microsoft.SkipLayerNormalization(x, s, g)",
      {{"x", kSkipNormTokens},
       {"s", Floats({2, 3}, {-0.71, 0.4, -0.42, 0.74, -0.45, 0.12})},
       {"g", Floats({3}, {1.07, 1.42, 0.71})}},
      {{"y", Floats({2, 2, 3}, {-1.312348, 1.736644, 0.00248801, 1.489938,
                                -0.684821, -0.6462396, -0.1171134, 1.811632,
                                -0.8281052, 1.418978, -1.54569, -0.1687197})}});
}

// NumPy: t / sqrt(mean(t^2) + epsilon) * g of t = x + s + i.
TEST(LowerSkipNormTest, TheSimplifiedFormHasNoMean) {
  ExpectOutputs(
      "y, , , z = com.microsoft.SkipSimplifiedLayerNormalization<epsilon = "
      "0.01>(x, s, g, i)",
      {{"x", kSkipNormTokens},
       {"s", kSkip},
       {"g", Floats({3}, {1.07, 1.42, 0.71})},
       {"i", Floats({3}, {0.25, 0.21, 0.94})}},
      {{"y", Floats({2, 2, 3}, {-1.026869, 1.696771, 0.561137, 1.483663,
                                0.5791095, 0.665976, 0.7440388, 2.07877,
                                -0.4070926, 0.3766887, 0.7901719, 1.128817})},
       {"z", kSum}});
}

TEST(LowerSkipNormTest, SimplifiedLayerNormGivesTheInverseRoot) {
  ExpectOutputs(
      "y, v = SimplifiedLayerNormalization<epsilon = 0.01>(x, g)",
      {{"x", kSkipNormTokens}, {"g", Floats({3}, {1.07, 1.42, 0.71})}},
      {{"y",
        Floats({2, 2, 3}, {-1.105342, 1.728849, 0.4191149, 0.8881506, 2.038775,
                           -0.2229911, 0.7821892, 1.517143, -0.7984965,
                           1.724842, -0.6867127, -0.06540121})},
       {"v", Floats({2, 2, 1}, {1.844696, 2.243371, 1.405804, 2.30286})}});
}

// NumPy: rows we[ids] + pe[0, 1] + se[seg], normalised. The second output
// counts the ones of the mask.
TEST(LowerSkipNormTest, EmbeddingsAreSummedAndNormalised) {
  ExpectOutputs(
      "y, c, e = com.microsoft.EmbedLayerNormalization<epsilon = "
      "0.01>(ids, seg, we, pe, se, g, b, m)",
      {{"ids", kIds},
       {"seg", Tensor(DType::kInt32, {2, 2}, {0, 1, 1, 1})},
       {"we", kWords},
       {"pe", kPositions},
       {"se", Floats({2, 3}, {0.34, 0.34, 0.05, 0.11, -0.6, -0.01})},
       {"g", Floats({3}, {1.07, 1.42, 0.71})},
       {"b", Floats({3}, {0.7, -0.66, 0.93})},
       {"m", Tensor(DType::kInt32, {2, 2}, {1, 0, 1, 1})}},
      {{"y", Floats({2, 2, 3}, {-0.4807554, 1.182719, 0.7921323, 1.90392,
                                -0.4141961, 0.008235097, 0.8356398, -2.460078,
                                1.740035, 1.408211, 0.393956, -0.066912})},
       {"c", Tensor(DType::kInt32, {2}, {1, 2})},
       {"e", Floats({2, 2, 3},
                    {-0.64, 1.05, -1.117587e-08, 1.61, 0.4, -1.47, -0.5599999,
                     -1.44, 0.07999998, 0.47, 0.54, -1.33})}});
}

TEST(LowerSkipNormTest, PositionsMayBeGivenAndSegmentsAbsent) {
  ExpectOutputs(
      "y, c = com.microsoft.EmbedLayerNormalization<epsilon = 0.01>(ids, , "
      "we, pe, , g, b, , p)",
      {{"ids", kIds},
       {"we", kWords},
       {"pe", kPositions},
       {"g", Floats({3}, {1.07, 1.42, 0.71})},
       {"b", Floats({3}, {0.7, -0.66, 0.93})},
       {"p", Tensor(DType::kInt32, {2, 2}, {3, 1, 0, 2})}},
      {{"y", Floats({2, 2, 3}, {0.4477694, 1.175648, 0.1795437, 1.65106,
                                0.05497724, -0.05856556, 0.1947822, -1.91004,
                                1.890258, 0.562825, 1.156315, 0.112865})},
       {"c", Tensor(DType::kInt32, {2}, {0, 0})}});
}

const RefusedNodes kSkipNormRefused[] = {
    {"TooFewPositionsAreRefused",
     "(int32[1, 5] ids, float[3, 2] we, float[4, 2] pe, float[2] g, "
     "float[2] b) => (float[1, 5, 2] y, int32[1] c)",
     "y, c = com.microsoft.EmbedLayerNormalization(ids, , we, pe, , g, b)",
     "the position embedding has 4 rows for 5 tokens"},
    {"GammaOfAnotherWidthIsRefused",
     "(float[1, 2, 3] x, float[1, 2, 3] s, float[2] g) => (float[1, 2, 3] "
     "y)",
     "y = com.microsoft.SkipLayerNormalization(x, s, g)",
     "gamma is [2] and must be [3]"},
    {"StatisticsAreNoOutputs",
     "(float[1, 2, 3] x, float[1, 2, 3] s, float[3] g) => (float[1, 2, 3] "
     "y, float[1, 2, 1] m)",
     "y, m = com.microsoft.SkipLayerNormalization(x, s, g)",
     "its output 'm' is not supported"},
};

TEST(LowerSkipNormTest, RefusesWhatDoesNotFit) {
  ExpectRefusals(kSkipNormRefused);
}

}  // namespace
}  // namespace gpupool::engine::onnx_import
