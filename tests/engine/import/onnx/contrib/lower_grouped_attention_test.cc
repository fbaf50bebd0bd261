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

const HostTensor kGroupedTokens =
    Floats({1, 2, 8}, {0.15, 0.39, 0.02, -0.33, -0.13, 0.84, -0.62, -0.7, -0.98,
                       0.7, 0.98, -0.53, -0.47, -0.6, 0.2, -0.03});
const HostTensor kCosines =
    Floats({6, 2}, {0.62, -0.13, -0.13, 0.12, -0.44, 0.77, -0.58, 0.09, -0.66,
                    0.23, 0.8, 0.77});
const HostTensor kSines = Floats({6, 2}, {-0.73, 0.25, 0.79, -0.6, -0.17, 0.43,
                                          0.48, -0.1, 0.28, 0.34, -0.29, 0.3});
const HostTensor kGroupedQueries =
    Floats({1, 3, 8}, {0.66, 0.49,  -0.87, -0.57, 0.74,  -0.01, 0.32,  0.56,
                       0.27, 0.47,  0.09,  -0.54, -0.63, 0.99,  -0.98, 0.38,
                       0.76, -0.54, -0.9,  -0.2,  -0.34, -0.08, -0.15, 0.88});
const HostTensor kGroupedKeys =
    Floats({1, 3, 4}, {-0.76, 0.89, -0.91, 0.88, -0.33, 0.45, -0.99, -0.11,
                       0.36, 0.26, 0.61, -0.69});
const HostTensor kGroupedValues =
    Floats({1, 3, 4}, {-0.2, 0.23, -0.94, 0.67, -0.17, -0.51, -0.56, 0.3, -0.9,
                       -0.51, -0.39, -0.48});
const HostTensor kKeysByHead =
    Floats({1, 2, 3, 2}, {-0.76, 0.89, -0.33, 0.45, 0.36, 0.26, -0.91, 0.88,
                          -0.99, -0.11, 0.61, -0.69});
const HostTensor kValuesByHead =
    Floats({1, 2, 3, 2}, {-0.2, 0.23, -0.17, -0.51, -0.9, -0.51, -0.94, 0.67,
                          -0.56, 0.3, -0.39, -0.48});
const HostTensor kNarrowCosines =
    Floats({8, 1}, {0.46, 0.18, 0.81, 0.4, -0.41, -0.35, -0.75, -0.51});
const HostTensor kNarrowSines =
    Floats({8, 1}, {0.21, 0.46, -0.41, -0.31, 0.61, 0.92, -0.83, -0.86});

// NumPy: (a c - b s, a s + b c) of the halves a and b of each head.
TEST(LowerGroupedAttentionTest, HeadsAreAsWideAsTheTables) {
  ExpectOutputs(
      "y = com.microsoft.RotaryEmbedding(x, p, c, s)",
      {{"x", kGroupedTokens},
       {"p", Ints({1, 2}, {3, 1})},
       {"c", kCosines},
       {"s", kSines}},
      {{"y", Floats({1, 2, 8},
                    {-0.0966, 0.002099998, 0.06040001, -0.0687, 0.373,
                     0.005599998, 0.2972, -0.147, -0.6468, -0.234, -0.9016,
                     -0.4836, -0.09690001, -0.09, -0.3973, 0.3564})}});
}

TEST(LowerGroupedAttentionTest, PositionsMayBeginAtANumber) {
  ExpectOutputs(
      "y = com.microsoft.RotaryEmbedding<interleaved = 1>(x, p, c, s)",
      {{"x", kGroupedTokens},
       {"p", Ints({1}, {2})},
       {"c", kCosines},
       {"s", kSines}},
      {{"y",
        Floats({1, 2, 8}, {0.0002999976, -0.1971, 0.1573, -0.2455, 0.2, -0.3475,
                           -0.1764, -0.8056, 0.2324, -0.8764, 0.0352, -0.1457,
                           0.5606, 0.1224, 0.015, -0.0227})}});
}

TEST(LowerGroupedAttentionTest, APartOfEachHeadMayTurn) {
  ExpectOutputs(
      "y = com.microsoft.RotaryEmbedding<rotary_embedding_dim = 4, "
      "num_heads = 2>(x, p, c, s)",
      {{"x", Floats({1, 2, 2, 6},
                    {0.64,  -0.58, 0.76,  -0.07, 0.62, 0.6,  0.82,  -0,
                     0.22,  0.12,  -0.62, 0,     0.85, 0.82, -0.96, 0.33,
                     -0.35, -0.73, -0.72, 0.59,  0.92, 0.04, -0.23, 0.02})},
       {"p", Ints({1, 2}, {3, 1})},
       {"c", kCosines},
       {"s", kSines}},
      {{"y", Floats({1, 2, 2, 6},
                    {-0.7359999,  -0.0592, -0.1336,   0.0517,  0.62,  0.6,
                     -0.2804,     0.072,   0.6192001, 0.0144,  -0.62, 0,
                     -0.03220001, 0.1068,  0.9647999, -0.0523, -0.35, -0.73,
                     -0.6332,     0.0948,  -0.6884,   -0.3492, -0.23, 0.02})}});
}

// Expects the outputs of GroupQueryAttention with four heads, which share two
// heads of keys, with these further attributes and perhaps sinks of the heads.
void ExpectGrouped(const std::string& attributes, std::vector<double> numbers,
                   const std::optional<HostTensor>& sinks = std::nullopt) {
  NamedTensors inputs = {{"q", kGroupedQueries},
                         {"k", kGroupedKeys},
                         {"v", kGroupedValues},
                         {"l", Tensor(DType::kInt32, {1}, {2})}};
  if (sinks.has_value()) inputs.emplace_back("h", *sinks);
  ExpectOutputs(absl::StrCat("t = Constant<value = int32 {3}>() y, kk, vv = "
                             "com.microsoft.GroupQueryAttention<num_heads = 4, "
                             "kv_num_heads = 2",
                             attributes.empty() ? "" : ", ", attributes,
                             ">(q, k, v, , , l, t",
                             sinks.has_value() ? ", , , , , h)" : ")"),
                inputs,
                {{"y", Floats({1, 3, 8}, std::move(numbers))},
                 {"kk", kKeysByHead},
                 {"vv", kValuesByHead}});
}

// NumPy: softmax(q k^T / sqrt(2)) v. Heads 0 and 1 share keys, as do 2 and 3.
TEST(LowerGroupedAttentionTest, QueriesShareKeysAndSeeEarlierOnes) {
  ExpectGrouped("", {-0.2,       0.23,       -0.2,       0.23,       -0.94,
                     0.67,       -0.94,      0.67,       -0.1854808, -0.1281392,
                     -0.1835393, -0.1760296, -0.8102967, 0.5437099,  -0.7699312,
                     0.5044067,  -0.5284595, -0.3562341, -0.3496115, -0.1944894,
                     -0.6485187, 0.2219078,  -0.7345384, 0.3643836});
}

TEST(LowerGroupedAttentionTest, OneInputMayHoldAllAndTurn) {
  ExpectOutputs(
      "t = Constant<value = int32 {3}>() y, kk, vv = "
      "com.microsoft.GroupQueryAttention<num_heads = 4, kv_num_heads = 2, "
      "do_rotary = 1>(q, , , , , l, t, c, s)",
      {{"q", Floats({1, 3, 16},
                    {0.66,  0.49,  -0.87, -0.57, 0.74,  -0.01, 0.32,  0.56,
                     -0.76, 0.89,  -0.91, 0.88,  -0.2,  0.23,  -0.94, 0.67,
                     0.27,  0.47,  0.09,  -0.54, -0.63, 0.99,  -0.98, 0.38,
                     -0.33, 0.45,  -0.99, -0.11, -0.17, -0.51, -0.56, 0.3,
                     0.76,  -0.54, -0.9,  -0.2,  -0.34, -0.08, -0.15, 0.88,
                     0.36,  0.26,  0.61,  -0.69, -0.9,  -0.51, -0.39, -0.48})},
       {"l", Tensor(DType::kInt32, {1}, {2})},
       {"c", kNarrowCosines},
       {"s", kNarrowSines}},
      {{"y", Floats({1, 3, 8},
                    {-0.2,       0.23,       -0.2,       0.23,       -0.94,
                     0.67,       -0.94,      0.67,       -0.1855948, -0.125329,
                     -0.1845263, -0.1516854, -0.7629951, 0.4976532,  -0.7435312,
                     0.4787015,  -0.4599437, -0.3105555, -0.3567076, -0.1999272,
                     -0.6520602, 0.206552,   -0.671939,  0.2410493})},
       {"kk", Floats({1, 2, 3, 2},
                     {-0.5365, 0.2498, -0.2664, -0.07080001, 0.3982, 0.06299998,
                      -0.6034, 0.2137, -0.1276, -0.4752, 0.2112, -0.809})},
       {"vv", kValuesByHead}});
}

TEST(LowerGroupedAttentionTest, AWindowHidesOlderKeys) {
  ExpectGrouped(
      "local_window_size = 2",
      {-0.2,       0.23,      -0.2,       0.23,        -0.94,      0.67,
       -0.94,      0.67,      -0.1854808, -0.1281392,  -0.1835393, -0.1760296,
       -0.8102967, 0.5437099, -0.7699312, 0.5044067,   -0.6146126, -0.51,
       -0.4608133, -0.51,     -0.4898015, -0.02208721, -0.4970364, 0.01110833});
}

TEST(LowerGroupedAttentionTest, ScoresMayBeCappedAndHaveASink) {
  ExpectGrouped(
      "softcap = 0.5",
      {-0.07242358, 0.08328713, -0.1058502, 0.1217277,   -0.4177647, 0.2977684,
       -0.4392149,  0.3130575,  -0.1060607, -0.07365739, -0.1123688, -0.1014924,
       -0.5948949,  0.3888493,  -0.5317523, 0.3446833,   -0.2985948, -0.1902655,
       -0.2737662,  -0.1575119, -0.5152166, 0.1748962,   -0.5017145, 0.2214347},
      Floats({4}, {0.52, -0.01, -0.15, 0.27}));
}

TEST(LowerGroupedAttentionTest, ASmoothSoftmaxHasASinkOfZero) {
  ExpectGrouped("smooth_softmax = 1",
                {-0.09768464, 0.1123373,  -0.1054358, 0.1212512,  -0.358787,
                 0.2557312,   -0.5034433, 0.3588372,  -0.1284631, -0.08874851,
                 -0.1102087,  -0.1056993, -0.6549551, 0.4394756,  -0.6248768,
                 0.4093769,   -0.3672075, -0.2475343, -0.2693211, -0.1498238,
                 -0.4997326,  0.1709967,  -0.5731603, 0.2843285});
}

// Sequences of 3 and of 1 earlier tokens. seqlens_k is the position of the new
// token, which takes the row after them.
TEST(LowerGroupedAttentionTest, ATokenFollowsItsOwnSequence) {
  ExpectOutputs(
      "y, kk, vv = com.microsoft.GroupQueryAttention<num_heads = 4, "
      "kv_num_heads = 2, do_rotary = 1>(q, k, v, pk, pv, l, t, c, s)",
      {{"q",
        Floats({2, 1, 8}, {0.52, -0.86, 0.92, 0.92, -0.17, -0.06, -0.46, 0.17,
                           -0.59, 0.07, 0.81, 0.01, 0.65, -0.64, 0.77, -0.75})},
       {"k", Floats({2, 1, 4},
                    {-0.57, 0.44, -0.4, -0.76, -0.83, 0.59, -0.96, -0.89})},
       {"v",
        Floats({2, 1, 4}, {0.89, 0.56, -0.26, -0.62, 0.73, 0.58, 0.34, 0.06})},
       {"pk", Floats({2, 2, 3, 2},
                     {0.05,  0.96,  0.04,  -0.83, -0.85, 0.19,  0.47,  0.26,
                      0.49,  -0.41, -0.26, -0.47, -0.25, -0.47, 0.67,  -0.7,
                      -0.58, 0.43,  -0.2,  -0.32, 0.95,  0.79,  -0.56, -0.69})},
       {"pv", Floats({2, 2, 3, 2},
                     {-0.02, 0.15,  -0.31, 0.18,  0.36,  0.63,  -0.52, 0.29,
                      -0.88, -0.87, -0.89, -0.77, 0.56,  -0.26, -0.01, -0.1,
                      -0.59, -0.91, -0.64, 0.72,  -0.32, -0.16, -0.47, 0.48})},
       {"l", Tensor(DType::kInt32, {2}, {3, 1})},
       {"t", Tensor(DType::kInt32, {}, {4})},
       {"c", kNarrowCosines},
       {"s", kNarrowSines}},
      {{"y", Floats({2, 1, 8}, {0.1807367, 0.3722622, 0.2138515, 0.3541024,
                                -0.6343187, -0.4946204, -0.6273906, -0.4807152,
                                0.6441985, 0.1560395, 0.6464624, 0.1672259,
                                -0.1278709, 0.3750968, -0.1241471, 0.3725889})},
       {"kk",
        Floats({2, 2, 4, 2},
               {0.05,  0.96,  0.04,    -0.83,   -0.85, 0.19,  -0.0916, 0.3527,
                0.47,  0.26,  0.49,    -0.41,   -0.26, -0.47, -0.3956, -0.18,
                -0.25, -0.47, -0.4208, -0.2756, 0,     0,     0,       0,
                -0.2,  -0.32, 0.2366,  -0.6018, 0,     0,     0,       0})},
       {"vv", Floats({2, 2, 4, 2},
                     {-0.02, 0.15,  -0.31, 0.18,  0.36,  0.63,  0.89,  0.56,
                      -0.52, 0.29,  -0.88, -0.87, -0.89, -0.77, -0.26, -0.62,
                      0.56,  -0.26, 0.73,  0.58,  0,     0,     0,     0,
                      -0.64, 0.72,  0.34,  0.06,  0,     0,     0,     0})}});
}

constexpr char kGroupedPorts[] =
    "(float[1, 3, 8] q, float[1, 3, 4] k, float[1, 3, 4] v, int32[1] l, "
    "int32[2] h) => (float[1, 3, 8] y)";
const RefusedNodes kGroupedRefused[] = {
    {"TablesFitTheHeads",
     "(float[1, 2, 8] x, int64[1] p, float[6, 3] c, float[6, 3] s) => "
     "(float[1, 2, 8] y)",
     "y = com.microsoft.RotaryEmbedding<num_heads = 2>(x, p, c, s)",
     "the tables of cosines and sines have 3 columns instead of 2"},
    {"HeadsDivideTheColumns",
     "(float[1, 2, 8] x, int64[1] p, float[6, 2] c, float[6, 2] s) => "
     "(float[1, 2, 8] y)",
     "y = com.microsoft.RotaryEmbedding<num_heads = 3>(x, p, c, s)",
     "num_heads 3 must divide 8"},
    {"KeyHeadsDivideQueryHeads", kGroupedPorts,
     "t = Constant<value = int32 {3}>() y = "
     "com.microsoft.GroupQueryAttention<num_heads = 4, kv_num_heads = "
     "3>(q, k, v, , , l, t)",
     "num_heads 4 and kv_num_heads 3 do not fit 8 columns"},
    {"CachesOfCodesAreRefused", kGroupedPorts,
     "t = Constant<value = int32 {3}>() y = "
     "com.microsoft.GroupQueryAttention<num_heads = 4, kv_num_heads = 2, "
     "k_quant_type = \"PER_TENSOR\">(q, k, v, , , l, t)",
     "k_quant_type = 'PER_TENSOR' is not"},
    {"KeysHaveTheTokensOfQueries", kGroupedPorts,
     "t = Constant<value = int32 {3}>() y = "
     "com.microsoft.GroupQueryAttention<num_heads = 4, kv_num_heads = "
     "2>(q, v, q, , , l, t)",
     "key [1, 3, 4] and value [1, 3, 8] must be [1, 3, 4]"},
    {"TheTotalIsBounded", kGroupedPorts,
     "t = Constant<value = int32 {9}>() y = "
     "com.microsoft.GroupQueryAttention<num_heads = 4, kv_num_heads = "
     "2>(q, k, v, , , l, t)",
     "total_sequence_length 9 must be from 3 to 3"},
    {"AWindowIsAboveZero", kGroupedPorts,
     "t = Constant<value = int32 {3}>() y = "
     "com.microsoft.GroupQueryAttention<num_heads = 4, kv_num_heads = 2, "
     "local_window_size = 0>(q, k, v, , , l, t)",
     "local_window_size 0 must be -1, or above 0"},
};

TEST(LowerGroupedAttentionTest, RefusesWhatDoesNotFit) {
  ExpectRefusals(kGroupedRefused);
}

}  // namespace
}  // namespace gpupool::engine::onnx_import
