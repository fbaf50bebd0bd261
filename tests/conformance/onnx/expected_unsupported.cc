#include "tests/conformance/onnx/expected_unsupported.h"

namespace gpupool::engine::onnx_import {
namespace {

struct Row {
  absl::string_view name;
  absl::string_view reason;
};

constexpr absl::string_view kStrings = "tensors of strings";
constexpr absl::string_view kTextFeatures = "no operator for text features";
constexpr absl::string_view kDeterminant = "no operator for determinants";
constexpr absl::string_view kRandom =
    "the case expects the numbers of NumPy's generator";
constexpr absl::string_view kAdamCase =
    "the case computes with an epsilon that its node does not have";
// Newer versions of the cases round to nearest, like the engine.
constexpr absl::string_view kBFloat16Case =
    "the case cuts bits off instead of rounding to nearest";
// Cases of ONNX 1.17 that later versions of ONNX have corrected.
constexpr absl::string_view kWrapping =
    "the case cuts bits off instead of saturating";
constexpr absl::string_view kCeilCells =
    "the case counts padding that a window rounded up does not reach";
// In Operators.md, Resize, length_resized is the length of the output, an
// integer. PyTorch and ONNX Runtime agree.
constexpr absl::string_view kResizeCase =
    "the case takes a fraction for the output's length";

constexpr Row kRows[] = {
    {"test_adam_multiple", kAdamCase},
    {"test_averagepool_3d_dilations_large_count_include_pad_is_1_ceil_mode_is_"
     "True",
     kCeilCells},
    {"test_bernoulli", kRandom},
    {"test_bernoulli_double", kRandom},
    {"test_bernoulli_double_expanded", kRandom},
    {"test_bernoulli_expanded", kRandom},
    {"test_bernoulli_seed", kRandom},
    {"test_bernoulli_seed_expanded", kRandom},
    {"test_cast_FLOAT_to_BFLOAT16", kBFloat16Case},
    {"test_cast_FLOAT_to_STRING", kStrings},
    {"test_cast_STRING_to_FLOAT", kStrings},
    {"test_castlike_FLOAT_to_BFLOAT16", kBFloat16Case},
    {"test_castlike_FLOAT_to_BFLOAT16_expanded", kBFloat16Case},
    {"test_castlike_FLOAT_to_STRING", kStrings},
    {"test_castlike_FLOAT_to_STRING_expanded", kStrings},
    {"test_castlike_STRING_to_FLOAT", kStrings},
    {"test_castlike_STRING_to_FLOAT_expanded", kStrings},
    {"test_det_2d", kDeterminant},
    {"test_det_nd", kDeterminant},
    {"test_qlinearmatmul_2D_int8_float16", kWrapping},
    {"test_qlinearmatmul_2D_int8_float32", kWrapping},
    {"test_qlinearmatmul_3D_int8_float16", kWrapping},
    {"test_qlinearmatmul_3D_int8_float32", kWrapping},
    {"test_resize_downsample_scales_cubic_align_corners", kResizeCase},
    {"test_resize_downsample_scales_linear_align_corners", kResizeCase},
    {"test_strnorm_model_monday_casesensintive_lower", kStrings},
    {"test_strnorm_model_monday_casesensintive_nochangecase", kStrings},
    {"test_strnorm_model_monday_casesensintive_upper", kStrings},
    {"test_strnorm_model_monday_empty_output", kStrings},
    {"test_strnorm_model_monday_insensintive_upper_twodim", kStrings},
    {"test_strnorm_model_nostopwords_nochangecase", kStrings},
    {"test_strnormalizer_export_monday_casesensintive_lower", kStrings},
    {"test_strnormalizer_export_monday_casesensintive_nochangecase", kStrings},
    {"test_strnormalizer_export_monday_casesensintive_upper", kStrings},
    {"test_strnormalizer_export_monday_empty_output", kStrings},
    {"test_strnormalizer_export_monday_insensintive_upper_twodim", kStrings},
    {"test_strnormalizer_nostopwords_nochangecase", kStrings},
    {"test_tfidfvectorizer_tf_batch_onlybigrams_skip0", kTextFeatures},
    {"test_tfidfvectorizer_tf_batch_onlybigrams_skip5", kTextFeatures},
    {"test_tfidfvectorizer_tf_batch_uniandbigrams_skip5", kTextFeatures},
    {"test_tfidfvectorizer_tf_only_bigrams_skip0", kTextFeatures},
    {"test_tfidfvectorizer_tf_onlybigrams_levelempty", kTextFeatures},
    {"test_tfidfvectorizer_tf_onlybigrams_skip5", kTextFeatures},
    {"test_tfidfvectorizer_tf_uniandbigrams_skip5", kTextFeatures},
    {"test_training_dropout", kRandom},
    {"test_training_dropout_default", kRandom},
    {"test_training_dropout_default_mask", kRandom},
    {"test_training_dropout_mask", kRandom},
};

}  // namespace

// The inverse of the rounded inputs of these cases is 1e-6 where they have 0,
// also in NumPy with float64. The tolerance is 1e-7. ONNX 1.12 has other
// inputs.
bool IsInexactWhenNewer(absl::string_view name) {
  return name == "test_dft_inverse" || name == "test_dft_inverse_opset19";
}

absl::string_view WhyUnsupported(absl::string_view name) {
  for (const Row& row : kRows) {
    if (row.name == name) return row.reason;
  }
  return "";
}

}  // namespace gpupool::engine::onnx_import
