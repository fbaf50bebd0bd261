#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/engine/import/onnx/operators/domain_case.h"
#include "tests/engine/import/onnx/operators/lowering_case.h"

namespace gpupool::engine::onnx_import {
namespace {

const HostTensor kPackedTokens =
    Floats({1, 3, 2}, {-0.83, -0.53, 0.6, 0.16, -0.81, -0.13});
const HostTensor kWeights =
    Floats({2, 12}, {-0.04, -0.68, 0.47,  -0.77, -0.22, 0.03,  -0.14, 0.17,
                     0.48,  0.91,  -0.43, 0.3,   0.39,  -0.41, -1,    0.95,
                     -0.4,  -0.37, 0.78,  0.17,  -0.06, 0.55,  -0.94, 0.41});
const HostTensor kBias = Floats({12}, {-0.25, -0.82, 0.32, 0.86, -0.59, 0.26,
                                       -0.4, 0.48, 0.44, -0.56, 0.66, 0.32});
const HostTensor kPackedQueries =
    Floats({1, 2, 4}, {-0.3, -0.3, -0.04, -0.81, 0.09, 0.84, 0.13, 0.49});
const HostTensor kPackedKeys =
    Floats({1, 3, 4}, {0.89, 0.68, 0.49, 0.63, 0.64, -0.49, -0.04, -0.31, -0.48,
                       0.14, -0.36, 0.24});
const HostTensor kPackedValues =
    Floats({1, 3, 4}, {0.16, -0.79, -0.12, -0.22, 0.41, -0.82, -0.66, 0.03,
                       -0.19, 0.33, -0.33, -0.61});

HostTensor Mask(std::vector<int64_t> dims, std::vector<double> numbers) {
  return Tensor(DType::kInt32, std::move(dims), std::move(numbers));
}

// Expects the outputs of Attention with two heads and these further attributes.
void ExpectAttention(const std::string& attributes,
                     const std::optional<HostTensor>& mask,
                     std::vector<double> numbers) {
  NamedTensors inputs = {{"x", kPackedTokens}, {"w", kWeights}, {"b", kBias}};
  if (mask.has_value()) inputs.emplace_back("m", *mask);
  ExpectOutputs(absl::StrCat("y = com.microsoft.Attention<num_heads = 2",
                             attributes.empty() ? "" : ", ", attributes,
                             ">(x, w, b", mask.has_value() ? ", m)" : ")"),
                inputs, {{"y", Floats({1, 3, 4}, std::move(numbers))}});
}

// NumPy: softmax(q k^T / sqrt(2)) v per head, where x w + b holds q, k and v
// of 4 columns.
TEST(LowerPackedAttentionTest, QueriesKeysAndValuesComeFromOneProduct) {
  ExpectAttention(
      "", std::nullopt,
      {0.3065905, -0.9097927, 0.8862175, 0.1929571, 0.3130917, -0.8897815,
       0.9137965, 0.1769922, 0.3007906, -0.9236277, 0.8811103, 0.1965077});
}

TEST(LowerPackedAttentionTest, EarlierTokensDoNotSeeLaterOnes) {
  ExpectAttention(
      "unidirectional = 1, scale = 0.5", std::nullopt,
      {0.07340002, -1.6068, 1.5151, -0.1463, 0.4280215, -0.6826949, 0.8285862,
       0.2405059, 0.2957017, -0.9364788, 0.9063855, 0.1818975});
}

TEST(LowerPackedAttentionTest, AMaskMayTellTheNumberOfKeys) {
  ExpectAttention(
      "", Mask({1}, {2}),
      {0.4252648, -0.6898785, 0.7697354, 0.2736645, 0.4411767, -0.6484137,
       0.806096, 0.2531776, 0.4191558, -0.705798, 0.7698696, 0.2735889});
}

TEST(LowerPackedAttentionTest, AMaskMayTellEndsAndFirstKeys) {
  ExpectAttention(
      "", Mask({2}, {3, 1}),
      {0.4100003, -0.6007004, 0.6444638, 0.3233735, 0.4089881, -0.6029146,
       0.664409, 0.3110759, 0.4036549, -0.6145825, 0.6300609, 0.3322539});
}

TEST(LowerPackedAttentionTest, AMaskPerKeyAddsItsFilter) {
  ExpectAttention(
      "mask_filter_value = -1.0, unidirectional = 1", Mask({1, 3}, {1, 0, 1}),
      {0.07340002, -1.6068, 1.5151, -0.1463, 0.2849455, -1.055536, 1.110897,
       0.08144194, 0.1778137, -1.217408, 1.099801, 0.06828575});
}

TEST(LowerPackedAttentionTest, AMaskMayDifferByQuery) {
  ExpectAttention(
      "", Mask({1, 3, 3}, {1, 1, 0, 0, 1, 1, 1, 1, 1}),
      {0.4252648, -0.6898785, 0.7697354, 0.2736645, 0.4089881, -0.6029146,
       0.664409, 0.3110759, 0.3007907, -0.9236277, 0.8811103, 0.1965077});
}

TEST(LowerPackedAttentionTest, AMaskMayBeCutFromALargerOne) {
  ExpectAttention(
      "", Mask({1, 1, 4, 4}, {1, 0, 0, 0, 1, 1, 0, 0, 0, 1, 1, 0, 1, 1, 1, 1}),
      {0.07340002, -1.6068, 1.5151, -0.1463, 0.4411767, -0.6484137, 0.806096,
       0.2531776, 0.4036549, -0.6145825, 0.6300609, 0.3322539});
}

TEST(LowerPackedAttentionTest, KeysOfEarlierCallsComeFirst) {
  ExpectOutputs(
      "y, z = com.microsoft.Attention<num_heads = 2, unidirectional = "
      "1>(x, w, b, , p, ab)",
      {{"x", kPackedTokens},
       {"w", kWeights},
       {"b", kBias},
       {"p", Floats({2, 1, 2, 2, 2},
                    {0.37, 0.64, -0.14, 0.52, 0.76, -0.8, 0.7, -0.21, -0.04,
                     -0.71, 0.4, -0.42, 0.74, -0.45, 0.12, -0.2})},
       {"ab", Floats({1, 2, 3, 5},
                     {0.23,  -0.61, -0.64, 0.49,  0.5,   0.13, 0.84,  -0.59,
                      0.7,   -0.66, 0.93,  0.25,  0.21,  0.94, 0.57,  0.58,
                      -0.89, -0.26, -0.83, -0.61, -0.57, 0.72, -0.75, -0.41,
                      -0.01, 0.7,   0.93,  0.42,  -0.57, 0.09})}},
      {{"y", Floats({1, 3, 4}, {0.09905149, -0.8603401, 0.8577202, -0.3154409,
                                0.4465801, -0.3537746, 0.3688892, -0.08482938,
                                0.2878016, -0.6735032, 0.7671937, -0.0723837})},
       {"z", Floats({2, 1, 2, 5, 2},
                    {0.37,    0.64,    -0.14,      0.52,       -0.1954,
                     0.4312,  -0.786,  0.2188,     -0.3598,    0.2838,
                     0.76,    -0.8,    0.7,        -0.21,      -0.6971999,
                     0.2488,  -0.3592, 0.6092,     -0.388,     0.3202,
                     -0.04,   -0.71,   0.4,        -0.42,      0.07340002,
                     -1.6068, 0.7184,  0.07400006, 0.05900002, -1.3686,
                     0.74,    -0.45,   0.12,       -0.2,       1.5151,
                     -0.1463, 0.2516,  0.5656,     1.1305,     0.02369997})}});
}

// NumPy: the attention of (x - xz) (w - wz) * xs * ws + b.
TEST(LowerPackedAttentionTest, CodesAreProjectedWithTheirScales) {
  ExpectOutputs(
      "y = com.microsoft.QAttention<num_heads = 2>(x, w, b, xs, ws, , xz, "
      "wz)",
      {{"x", Tensor(DType::kUint8, {1, 3, 2}, {10, 200, 130, 90, 0, 255})},
       {"w",
        Tensor(DType::kInt8, {2, 12},
               {113, 52, 81,   -115, -53, 46, 34, -34, -88,  22, -106, 43,
                77,  43, -112, 5,    -51, 14, 46, -78, -119, -2, 30,   -96})},
       {"b", kBias},
       {"xs", Floats({}, {0.02})},
       {"ws", Floats({12}, {0.01, 0.02, 0.02, 0.01, 0.01, 0.02, 0.01, 0.02,
                            0.01, 0.01, 0.02, 0.01})},
       {"xz", Tensor(DType::kUint8, {}, {120})},
       {"wz", Tensor(DType::kInt8, {}, {3})}},
      {{"y",
        Floats({1, 3, 4}, {-0.1320542, -1.073408, -0.07047059, 0.9795589,
                           0.01994631, -1.028977, 3.605794, -0.9850525,
                           -0.007951552, -1.027104, -0.08579318, 0.9870547})}});
}

TEST(LowerPackedAttentionTest, MultiHeadAttentionAddsTheColumnBias) {
  ExpectOutputs(
      "y = com.microsoft.MultiHeadAttention<num_heads = 2>(q, k, v, b)",
      {{"q", kPackedQueries},
       {"k", kPackedKeys},
       {"v", kPackedValues},
       {"b", Floats({12}, {0.86, -0.51, -0.71, -0.44, -0.32, -0.55, 0.07, 0.87,
                           -0.75, -0.17, 0.34, 0.77})}},
      {{"y",
        Floats({1, 2, 4}, {-0.5435774, -0.7259004, -0.1168064, 0.533374,
                           -0.570987, -0.7724599, -0.04186795, 0.4820659})}});
}

TEST(LowerPackedAttentionTest, MultiHeadAttentionMasksKeys) {
  ExpectOutputs(
      "y = com.microsoft.MultiHeadAttention<num_heads = 2>(q, k, v, , m, "
      "ab)",
      {{"q", kPackedQueries},
       {"k", kPackedKeys},
       {"v", kPackedValues},
       {"m", Tensor(DType::kInt32, {1, 3}, {1, 1, 0})},
       {"ab", Floats({1, 1, 2, 3}, {1, -0.71, 0.07, 0.76, -0.89, 0.18})}},
      {{"y",
        Floats({1, 2, 4}, {0.2091069, -0.7958928, -0.2492124, -0.1601794,
                           0.1815517, -0.7925862, -0.1829983, -0.1908341})}});
}

TEST(LowerPackedAttentionTest, MultiHeadAttentionAppendsToThePast) {
  ExpectOutputs(
      "y, kk, vv = com.microsoft.MultiHeadAttention<num_heads = 2, "
      "unidirectional = 1>(q, k, v, , , , pk, pv)",
      {{"q", kPackedQueries},
       {"k",
        Floats({1, 2, 4}, {0.89, 0.68, 0.49, 0.63, 0.64, -0.49, -0.04, -0.31})},
       {"v", Floats({1, 2, 4},
                    {0.16, -0.79, -0.12, -0.22, 0.41, -0.82, -0.66, 0.03})},
       {"pk", Floats({1, 2, 2, 2},
                     {-0.65, 0.54, 0.88, 0.08, -0.98, -0.87, -0.17, 0.69})},
       {"pv", Floats({1, 2, 2, 2},
                     {-0.53, 0.34, -0.19, -0.47, 0.41, -0.38, -0.26, 0.53})}},
      {{"y",
        Floats({1, 2, 4}, {-0.2280147, -0.2353579, 0.1424284, -0.1425105,
                           -0.07064855, -0.4092271, -0.1927674, 0.03550772})},
       {"kk", Floats({1, 2, 4, 2},
                     {-0.65, 0.54, 0.88, 0.08, 0.89, 0.68, 0.64, -0.49, -0.98,
                      -0.87, -0.17, 0.69, 0.49, 0.63, -0.04, -0.31})},
       {"vv", Floats({1, 2, 4, 2},
                     {-0.53, 0.34, -0.19, -0.47, 0.16, -0.79, 0.41, -0.82, 0.41,
                      -0.38, -0.26, 0.53, -0.12, -0.22, -0.66, 0.03})}});
}

// [batch, tokens, heads, 3, width]
TEST(LowerPackedAttentionTest, OneInputMayHoldQueriesKeysAndValues) {
  ExpectOutputs(
      "y = com.microsoft.MultiHeadAttention<num_heads = 2>(q)",
      {{"q", Floats({1, 2, 2, 3, 2},
                    {-0.01, 0.57,  0.03, -0.68, -0.11, 0.75, 0.13, 0.93,
                     -1,    -0.32, 0.54, 0.37,  0.12,  0.33, 0.75, 0.37,
                     0.09,  0.12,  0.33, -0.35, 0.34,  0.23, 0.57, -0.04})}},
      {{"y", Floats({1, 2, 4}, {0.01060629, 0.3700902, 0.5585668, 0.1162528,
                                0.00518693, 0.3871612, 0.5563208, 0.146949})}});
}

// [batch, tokens, heads, 2, width]
TEST(LowerPackedAttentionTest, OneInputMayHoldKeysAndValues) {
  ExpectOutputs(
      "y = com.microsoft.MultiHeadAttention<num_heads = 2>(q, k)",
      {{"q", kPackedQueries},
       {"k", Floats({1, 3, 2, 2, 2},
                    {-0.95, 0.07,  0.72, 0.28,  0.29,  -0.22, -0.29, 0.44,
                     -0.84, 0.73,  0.75, 0.92,  -0.73, -0.77, 0.79,  -0.2,
                     -0.46, -0.24, 0.32, -0.68, -0.03, 0.32,  0.44,  -0.98})}},
      {{"y", Floats({1, 2, 4}, {0.5921351, 0.1446856, 0.3649885, -0.180229,
                                0.630839, 0.3188184, 0.2803807, -0.2934629})}});
}

constexpr char kPackedPorts[] =
    "(float[1, 3, 2] x, float[2, 12] w, float[12] b, int32[5] m) => "
    "(float[1, 3, 4] y)";
const RefusedNodes kPackedRefused[] = {
    {"MasksOfPackedSequencesAreRefused", kPackedPorts,
     "y = com.microsoft.Attention<num_heads = 2>(x, w, b, m)",
     "a mask [5] for 1 sequences is not"},
    {"HeadsDivideTheWidth", kPackedPorts,
     "y = com.microsoft.Attention<num_heads = 3>(x, w, b)",
     "a multiple of num_heads, 3"},
    {"ThereIsAtLeastOneHead", kPackedPorts,
     "y = com.microsoft.Attention<num_heads = 0>(x, w, b)",
     "num_heads 0 must be at least 1"},
    {"SharedBuffersAreRefused", kPackedPorts,
     "y = com.microsoft.Attention<num_heads = 2, "
     "past_present_share_buffer = 1>(x, w, b)",
     "past_present_share_buffer = 1 is not; only 0 is"},
    {"WidthsSumUpToTheColumns", kPackedPorts,
     "y = com.microsoft.Attention<num_heads = 2, qkv_hidden_sizes = [4, "
     "4, 2]>(x, w, b)",
     "the first two must be equal and the sum 12"},
    {"AKeyNeedsAValue",
     "(float[1, 2, 4] q, float[1, 2, 4] k) => (float[1, 2, 4] y)",
     "y = com.microsoft.MultiHeadAttention<num_heads = 2>(q, k)",
     "the key [1, 2, 4] needs a value"},
};

TEST(LowerPackedAttentionTest, RefusesWhatDoesNotFit) {
  ExpectRefusals(kPackedRefused);
}

}  // namespace
}  // namespace gpupool::engine::onnx_import
