#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/engine/import/onnx/operators/domain_case.h"
#include "tests/engine/import/onnx/operators/lowering_case.h"

namespace gpupool::engine::onnx_import {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

TEST(LowerFeaturesTest, ScalerSubtractsAndMultiplies) {
  const auto y = RunDomain(
      "(float[2, 3] x) => (float[2, 3] y, float[2, 3] z) { y = "
      "ai.onnx.ml.Scaler<offset = [0.5, 0.0, -1.0], scale = [2.0, 3.0, "
      "4.0]>(x) z = ai.onnx.ml.Scaler<offset = [0.5], scale = [2.0]>(x) } ",
      {{"x", Floats({2, 3}, {-1.66, -1.05, 1.21, 0.33, -1.62, -0.27})}});
  ASSERT_TRUE(y.ok()) << y.status();
  ExpectNumbers((*y)[0], {2, 3}, {-4.32, -3.15, 8.84, -0.34, -4.86, 2.92});
  ExpectNumbers((*y)[1], {2, 3}, {-4.32, -3.1, 1.42, -0.34, -4.24, -1.54});
}

TEST(LowerFeaturesTest, NormalizerDividesRowsAndKeepsZeros) {
  const auto y = RunDomain(
      "(float[3, 3] x) => (float[3, 3] a, float[3, 3] b, float[3, 3] c) { "
      "a = ai.onnx.ml.Normalizer<norm = \"MAX\">(x) b = "
      "ai.onnx.ml.Normalizer<norm = \"L1\">(x) c = "
      "ai.onnx.ml.Normalizer<norm = \"L2\">(x) } ",
      {{"x",
        Floats({3, 3}, {-1.66, -1.05, 1.21, 0.33, -1.62, -0.27, 0, 0, 0})}});
  ASSERT_TRUE(y.ok()) << y.status();
  ExpectNumbers((*y)[0], {3, 3},
                {-1.371901, -0.8677685, 1, 1, -4.909091, -0.8181818, 0, 0, 0});
  ExpectNumbers((*y)[1], {3, 3},
                {-0.4234694, -0.2678571, 0.3086735, 0.1486486, -0.7297297,
                 -0.1216216, 0, 0, 0});
  ExpectNumbers((*y)[2], {3, 3},
                {-0.7195525, -0.4551386, 0.5244931, 0.1969948, -0.9670651,
                 -0.1611775, 0, 0, 0});
}

TEST(LowerFeaturesTest, BinarizerComparesWithItsThreshold) {
  const auto y = RunDomain(
      "(float[1, 3] x) => (float[1, 3] y) { y = "
      "ai.onnx.ml.Binarizer<threshold = 0.5>(x) } ",
      {{"x", Floats({1, 3}, {0.5, 0.75, -1})}});
  ASSERT_TRUE(y.ok()) << y.status();
  ExpectNumbers((*y)[0], {1, 3}, {0, 1, 0});
}

TEST(LowerFeaturesTest, ImputerFillsInNumbers) {
  const auto y = RunDomain(
      "(float[2, 2] x, int64[1, 2] i) => (float[2, 2] y, int64[1, 2] z) { "
      "y = ai.onnx.ml.Imputer<imputed_value_floats = [7.0, 8.0], "
      "replaced_value_float = 0.0>(x) z = "
      "ai.onnx.ml.Imputer<imputed_value_int64s = [9], "
      "replaced_value_int64 = -1>(i) } ",
      {{"x", Floats({2, 2}, {0, 1, 2, 0})}, {"i", Ints({1, 2}, {-1, 3})}});
  ASSERT_TRUE(y.ok()) << y.status();
  ExpectNumbers((*y)[0], {2, 2}, {7, 1, 2, 8});
  ExpectNumbers((*y)[1], {1, 2}, {9, 3});
}

TEST(LowerFeaturesTest, OneHotEncoderGivesZerosForOthers) {
  const auto y = RunDomain(
      "(int64[2, 2] x) => (float[2, 2, 3] y) { y = "
      "ai.onnx.ml.OneHotEncoder<cats_int64s = [3, 1, 2]>(x) } ",
      {{"x", Ints({2, 2}, {1, 3, 4, 2})}});
  ASSERT_TRUE(y.ok()) << y.status();
  ExpectNumbers((*y)[0], {2, 2, 3}, {0, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1});
}

// The first of two equal keys counts. The default is -1.
TEST(LowerFeaturesTest, LabelEncoderMapsNumbers) {
  const auto y = RunDomain(
      "(int64[3] x) => (float[3] y, int64[3] z) { y = "
      "ai.onnx.ml.LabelEncoder<keys_int64s = [3, 1], values_floats = "
      "[0.5, 1.5], default_float = -9.0>(x) z = "
      "ai.onnx.ml.LabelEncoder<keys_int64s = [3, 1, 3], values_int64s = "
      "[30, 10, 99]>(x) } ",
      {{"x", Ints({3}, {1, 3, 4})}});
  ASSERT_TRUE(y.ok()) << y.status();
  ExpectNumbers((*y)[0], {3}, {1.5, 0.5, -9});
  ExpectNumbers((*y)[1], {3}, {10, 30, -1});
}

TEST(LowerFeaturesTest, ArrayFeatureExtractorTakesColumns) {
  const auto y = RunDomain(
      "(float[2, 3] x, int64[2] i) => (float[2, 2] y) { y = "
      "ai.onnx.ml.ArrayFeatureExtractor(x, i) } ",
      {{"x", Floats({2, 3}, {-1.66, -1.05, 1.21, 0.33, -1.62, -0.27})},
       {"i", Ints({2}, {2, 0})}});
  ASSERT_TRUE(y.ok()) << y.status();
  ExpectNumbers((*y)[0], {2, 2}, {1.21, -1.66, -0.27, 0.33});
}

// Inputs are cut, or filled with zeros.
TEST(LowerFeaturesTest, FeatureVectorizerJoinsColumns) {
  const auto y = RunDomain(
      "(float[2, 2] x, int64[2, 2] i) => (float[2, 4] y) { y = "
      "ai.onnx.ml.FeatureVectorizer<inputdimensions = [1, 3]>(x, i) } ",
      {{"x", Floats({2, 2}, {1, 2, 3, 4})}, {"i", Ints({2, 2}, {5, 6, 7, 8})}});
  ASSERT_TRUE(y.ok()) << y.status();
  ExpectNumbers((*y)[0], {2, 4}, {1, 5, 6, 0, 3, 7, 8, 0});
}

TEST(LowerFeaturesTest, ZipMapPassesScoresThrough) {
  const auto y = RunDomain(
      "(float[2, 3] x) => (float[2, 3] y) { y = "
      "ai.onnx.ml.ZipMap<classlabels_int64s = [1, 2, 3]>(x) } ",
      {{"x", Floats({2, 3}, {-1.66, -1.05, 1.21, 0.33, -1.62, -0.27})}});
  ASSERT_TRUE(y.ok()) << y.status();
  ExpectNumbers((*y)[0], {2, 3}, {-1.66, -1.05, 1.21, 0.33, -1.62, -0.27});
}

TEST(LowerFeaturesTest, ZipMapWarnsThatMapsAreNotServed) {
  const auto model = ImportLowering(
      DomainCase("(float[1, 2] x) => (float[1, 2] y) "
                 "{ y = ai.onnx.ml.ZipMap<classlabels_int64s = [1, 2]>(x) }"));
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_THAT(model->warnings,
              Contains(HasSubstr("a list of maps is not served")));
}

TEST(LowerFeaturesTest, ScalesFitTheFeatures) {
  EXPECT_THAT(
      Refusal(
          "(float[1, 3] x) => (float[1, 3] y) { y = ai.onnx.ml.Scaler<offset "
          "= [0.0], scale = [1.0, 2.0]>(x) } "),
      HasSubstr("'scale' has 2 numbers and needs 1 or 3"));
}

TEST(LowerFeaturesTest, TextKeysAreRefused) {
  EXPECT_THAT(
      Refusal("(float[1, 3] x) => (float[1, 3] y) { y = "
              "ai.onnx.ml.LabelEncoder<keys_strings = [\"a\"], values_floats = "
              "[1.0]>(x) } "),
      HasSubstr("'keys_strings' is not: texts are not served"));
}

TEST(LowerFeaturesTest, TextCategoriesAreRefused) {
  EXPECT_THAT(Refusal("(float[1, 3] x) => (float[1, 3] y) { y = "
                      "ai.onnx.ml.OneHotEncoder<cats_strings = [\"a\"]>(x) } "),
              HasSubstr("'cats_strings' is not: texts are not served"));
}

TEST(LowerFeaturesTest, EveryKeyHasAValue) {
  EXPECT_THAT(
      Refusal(
          "(float[1, 3] x) => (float[1, 3] y) { y = "
          "ai.onnx.ml.LabelEncoder<keys_floats = [1.0, 2.0], values_floats = "
          "[1.0]>(x) } "),
      HasSubstr("has 2 keys and 1 values"));
}

TEST(LowerFeaturesTest, ImputedNumbersFitTheFeatures) {
  EXPECT_THAT(
      Refusal("(float[1, 3] x) => (float[1, 3] y) { y = "
              "ai.onnx.ml.Imputer<imputed_value_floats = [1.0, 2.0]>(x) } "),
      HasSubstr("'imputed_value_floats' has 2 numbers and needs 1 or 3"));
}

TEST(LowerFeaturesTest, EveryInputHasADimension) {
  EXPECT_THAT(
      Refusal("(float[1, 3] x) => (float[1, 3] y) { y = "
              "ai.onnx.ml.FeatureVectorizer<inputdimensions = [3, 1]>(x) } "),
      HasSubstr("'inputdimensions' has 2 numbers for 1 inputs"));
}

TEST(LowerFeaturesTest, DimensionsAreAboveZero) {
  EXPECT_THAT(
      Refusal("(float[1, 3] x) => (float[1, 3] y) { y = "
              "ai.onnx.ml.FeatureVectorizer<inputdimensions = [-3]>(x) } "),
      HasSubstr("an input dimension of -3 must be from 1"));
}

}  // namespace
}  // namespace gpupool::engine::onnx_import
