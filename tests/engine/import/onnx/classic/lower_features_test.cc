#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/engine/import/onnx/operators/domain_case.h"
#include "tests/engine/import/onnx/operators/lowering_case.h"

namespace gpupool::engine::onnx_import {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

const HostTensor kFeaturesRows =
    Floats({2, 3}, {-1.66, -1.05, 1.21, 0.33, -1.62, -0.27});

TEST(LowerFeaturesTest, ScalerSubtractsAndMultiplies) {
  ExpectOutputs(
      "y = ai.onnx.ml.Scaler<offset = [0.5, 0.0, -1.0], scale = [2.0, 3.0, "
      "4.0]>(x) z = ai.onnx.ml.Scaler<offset = [0.5], scale = [2.0]>(x)",
      {{"x", kFeaturesRows}},
      {{"y", Floats({2, 3}, {-4.32, -3.15, 8.84, -0.34, -4.86, 2.92})},
       {"z", Floats({2, 3}, {-4.32, -3.1, 1.42, -0.34, -4.24, -1.54})}});
}

TEST(LowerFeaturesTest, NormalizerDividesRowsAndKeepsZeros) {
  ExpectOutputs(
      "a = ai.onnx.ml.Normalizer<norm = \"MAX\">(x) b = "
      "ai.onnx.ml.Normalizer<norm = \"L1\">(x) c = "
      "ai.onnx.ml.Normalizer<norm = \"L2\">(x)",
      {{"x",
        Floats({3, 3}, {-1.66, -1.05, 1.21, 0.33, -1.62, -0.27, 0, 0, 0})}},
      {{"a", Floats({3, 3}, {-1.371901, -0.8677685, 1, 1, -4.909091, -0.8181818,
                             0, 0, 0})},
       {"b", Floats({3, 3}, {-0.4234694, -0.2678571, 0.3086735, 0.1486486,
                             -0.7297297, -0.1216216, 0, 0, 0})},
       {"c", Floats({3, 3}, {-0.7195525, -0.4551386, 0.5244931, 0.1969948,
                             -0.9670651, -0.1611775, 0, 0, 0})}});
}

TEST(LowerFeaturesTest, BinarizerComparesWithItsThreshold) {
  ExpectOutputs("y = ai.onnx.ml.Binarizer<threshold = 0.5>(x)",
                {{"x", Floats({1, 3}, {0.5, 0.75, -1})}},
                {{"y", Floats({1, 3}, {0, 1, 0})}});
}

TEST(LowerFeaturesTest, ImputerFillsInNumbers) {
  ExpectOutputs(
      "y = ai.onnx.ml.Imputer<imputed_value_floats = [7.0, 8.0], "
      "replaced_value_float = 0.0>(x) z = "
      "ai.onnx.ml.Imputer<imputed_value_int64s = [9], replaced_value_int64 "
      "= -1>(i)",
      {{"x", Floats({2, 2}, {0, 1, 2, 0})}, {"i", Ints({1, 2}, {-1, 3})}},
      {{"y", Floats({2, 2}, {7, 1, 2, 8})}, {"z", Ints({1, 2}, {9, 3})}});
}

TEST(LowerFeaturesTest, OneHotEncoderGivesZerosForOthers) {
  ExpectOutputs(
      "y = ai.onnx.ml.OneHotEncoder<cats_int64s = [3, 1, 2]>(x)",
      {{"x", Ints({2, 2}, {1, 3, 4, 2})}},
      {{"y", Floats({2, 2, 3}, {0, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1})}});
}

// The first of two equal keys counts. The default is -1.
TEST(LowerFeaturesTest, LabelEncoderMapsNumbers) {
  ExpectOutputs(
      "y = ai.onnx.ml.LabelEncoder<keys_int64s = [3, 1], values_floats = "
      "[0.5, 1.5], default_float = -9.0>(x) z = "
      "ai.onnx.ml.LabelEncoder<keys_int64s = [3, 1, 3], values_int64s = "
      "[30, 10, 99]>(x)",
      {{"x", Ints({3}, {1, 3, 4})}},
      {{"y", Floats({3}, {1.5, 0.5, -9})}, {"z", Ints({3}, {10, 30, -1})}});
}

TEST(LowerFeaturesTest, ArrayFeatureExtractorTakesColumns) {
  ExpectOutputs("y = ai.onnx.ml.ArrayFeatureExtractor(x, i)",
                {{"x", kFeaturesRows}, {"i", Ints({2}, {2, 0})}},
                {{"y", Floats({2, 2}, {1.21, -1.66, -0.27, 0.33})}});
}

// Inputs are cut, or filled with zeros.
TEST(LowerFeaturesTest, FeatureVectorizerJoinsColumns) {
  ExpectOutputs(
      "y = ai.onnx.ml.FeatureVectorizer<inputdimensions = [1, 3]>(x, i)",
      {{"x", Floats({2, 2}, {1, 2, 3, 4})}, {"i", Ints({2, 2}, {5, 6, 7, 8})}},
      {{"y", Floats({2, 4}, {1, 5, 6, 0, 3, 7, 8, 0})}});
}

TEST(LowerFeaturesTest, ZipMapPassesScoresThrough) {
  ExpectOutputs("y = ai.onnx.ml.ZipMap<classlabels_int64s = [1, 2, 3]>(x)",
                {{"x", kFeaturesRows}}, {{"y", kFeaturesRows}});
}

TEST(LowerFeaturesTest, ZipMapWarnsThatMapsAreNotServed) {
  const auto model = ImportLowering(
      DomainCase("(float[1, 2] x) => (float[1, 2] y) "
                 "{ y = ai.onnx.ml.ZipMap<classlabels_int64s = [1, 2]>(x) }"));
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_THAT(model->warnings,
              Contains(HasSubstr("a list of maps is not served")));
}

constexpr char kFeaturesPorts[] = "(float[1, 3] x) => (float[1, 3] y)";
const RefusedNodes kFeaturesRefused[] = {
    {"ScalesFitTheFeatures", kFeaturesPorts,
     "y = ai.onnx.ml.Scaler<offset = [0.0], scale = [1.0, 2.0]>(x)",
     "'scale' has 2 numbers and needs 1 or 3"},
    {"TextKeysAreRefused", kFeaturesPorts,
     "y = ai.onnx.ml.LabelEncoder<keys_strings = [\"a\"], values_floats = "
     "[1.0]>(x)",
     "'keys_strings' is not: texts are not served"},
    {"TextCategoriesAreRefused", kFeaturesPorts,
     "y = ai.onnx.ml.OneHotEncoder<cats_strings = [\"a\"]>(x)",
     "'cats_strings' is not: texts are not served"},
    {"EveryKeyHasAValue", kFeaturesPorts,
     "y = ai.onnx.ml.LabelEncoder<keys_floats = [1.0, 2.0], values_floats "
     "= [1.0]>(x)",
     "has 2 keys and 1 values"},
    {"ImputedNumbersFitTheFeatures", kFeaturesPorts,
     "y = ai.onnx.ml.Imputer<imputed_value_floats = [1.0, 2.0]>(x)",
     "'imputed_value_floats' has 2 numbers and needs 1 or 3"},
    {"EveryInputHasADimension", kFeaturesPorts,
     "y = ai.onnx.ml.FeatureVectorizer<inputdimensions = [3, 1]>(x)",
     "'inputdimensions' has 2 numbers for 1 inputs"},
    {"DimensionsAreAboveZero", kFeaturesPorts,
     "y = ai.onnx.ml.FeatureVectorizer<inputdimensions = [-3]>(x)",
     "an input dimension of -3 must be from 1"},
};

TEST(LowerFeaturesTest, RefusesWhatDoesNotFit) {
  ExpectRefusals(kFeaturesRefused);
}

}  // namespace
}  // namespace gpupool::engine::onnx_import
