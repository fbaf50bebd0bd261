#include "engine/data/transform/transform_check.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include "gpupool/v1/job.pb.h"

namespace gpupool::engine {
namespace {

using ::testing::HasSubstr;

// Returns data with the transforms, which are in text format.
v1::DataSpec DataOf(const std::string& transforms) {
  v1::DataSpec data;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(transforms, &data))
      << transforms;
  return data;
}

std::string ErrorOf(const std::string& transform) {
  const absl::Status checked =
      CheckTransforms(DataOf("transforms { " + transform + " }"));
  EXPECT_TRUE(checked.ok() || absl::IsInvalidArgument(checked));
  return std::string(checked.message());
}

TEST(TransformCheckTest, TakesDefaultsAndLimits) {
  for (const char* transform :
       {"to_float {}", "to_float { factor: -2 }",
        "normalize { mean: 0 std: 1 }", "random_horizontal_flip {}",
        "random_vertical_flip { p: 1 }", "random_crop { size: 1 }",
        "random_crop { size: 16384 size: 2 padding: 4096 }",
        "center_crop { size: 3 }", "resize { size: 3 size: 4 }",
        "random_resized_crop { size: 8 }",
        "random_resized_crop { size: 8 scale: 1 scale: 1 }",
        "random_rotation { degrees: 180 }", "color_jitter {}",
        "color_jitter { brightness: 0.4 maximum: 16 }", "random_erasing {}",
        "random_erasing { p: 0 ratio: 0.1 ratio: 1000 value: -1 }",
        "random_mask { mask_token: 0 vocabulary: 2147483647 }",
        "random_mask { p: 1 mask_token: 3 mask_share: 1 random_share: 0 }"}) {
    EXPECT_EQ(ErrorOf(transform), "");
  }
}

TEST(TransformCheckTest, NamesTheTransformAndTheNumber) {
  EXPECT_EQ(ErrorOf("random_horizontal_flip { p: 1.5 }"),
            "data.transforms[0].random_horizontal_flip: p is 1.5; it must be "
            "from 0 to 1");
  EXPECT_EQ(CheckTransforms(DataOf("transforms { to_float {} } transforms { "
                                   "random_crop { size: 0 } }"))
                .message(),
            "data.transforms[1].random_crop: size has 0; each side must be 1 "
            ".. 16384");
  EXPECT_EQ(ErrorOf(""),
            "data.transforms[0]: has no kind that this server knows; see "
            "message Transform in job.proto");
}

TEST(TransformCheckTest, RefusesMasksThatLackATokenOrTheVocabulary) {
  const std::string place = "data.transforms[0].random_mask: ";
  EXPECT_EQ(ErrorOf("random_mask {}"),
            place +
                "mask_token is missing; set it to the token that stands "
                "for hidden ones");
  EXPECT_EQ(ErrorOf("random_mask { mask_token: 3 }"),
            place +
                "vocabulary is missing; set it to the number of tokens, "
                "from which random ones are drawn, or random_share to 0");
  EXPECT_EQ(ErrorOf("random_mask { mask_token: 3 vocabulary: 9 "
                    "mask_share: 0.7 random_share: 0.5 }"),
            place +
                "mask_share 0.7 and random_share 0.5 are more than 1 "
                "together; lower one of them");
}

TEST(TransformCheckTest, HiddenTokensNeedLabelsOfTheirOwn) {
  const std::string mask =
      "transforms { random_mask { mask_token: 3 vocabulary: 9 } } ";
  for (const char* window :
       {"length: 4 target_rows: 4", "length: 4 predict_input: true",
        "length: 4 horizon: 0 target_rows: 4", "length: 1 target_rows: 1",
        "length: 4 targets: NEXT_OF_EACH"}) {
    EXPECT_THAT(
        std::string(CheckTransforms(DataOf(mask + "window { " + window + " }"))
                        .message()),
        HasSubstr("data.transforms[0].random_mask: data.window gives "
                  "tokens the labels of later ones"))
        << window;
  }
  for (const char* window : {"length: 4", "length: 1 horizon: 0 target_rows: 1",
                             "length: 4 targets: SAME"}) {
    EXPECT_TRUE(
        CheckTransforms(DataOf(mask + "window { " + window + " }")).ok())
        << window;
  }
  EXPECT_TRUE(CheckTransforms(DataOf("transforms { to_float {} } window { "
                                     "length: 4 predict_input: true }"))
                  .ok());
}

TEST(TransformCheckTest, RefusesNumbersOutOfRange) {
  for (const char* transform :
       {"to_float { factor: 0 }",
        "to_float { factor: nan }",
        "to_float { factor: 1e300 }",
        "normalize {}",
        "normalize { mean: 1 }",
        "normalize { mean: inf std: 1 }",
        "normalize { mean: 0 std: 0 }",
        "normalize { mean: 0 std: -1 }",
        "normalize { mean: 0 std: 1e-60 }",
        "random_vertical_flip { p: nan }",
        "random_crop {}",
        "random_mask { p: 0 mask_token: 3 vocabulary: 9 }",
        "random_mask { mask_token: -1 vocabulary: 9 }",
        "random_mask { mask_token: 3 vocabulary: 2147483648 }",
        "random_mask { mask_token: 3 vocabulary: 9 mask_share: -1 }",
        "random_mask { mask_token: 3 vocabulary: 9 random_share: nan }",
        "random_crop { size: 16385 }",
        "random_crop { size: 1 padding: 4097 }",
        "center_crop { size: 1 size: 2 size: 3 }",
        "resize {}",
        "random_resized_crop { scale: 0.1 scale: 1 }",
        "random_resized_crop { size: 8 scale: 0.1 }",
        "random_resized_crop { size: 8 scale: 0 scale: 1 }",
        "random_resized_crop { size: 8 scale: 0.5 scale: 0.1 }",
        "random_resized_crop { size: 8 scale: 0.5 scale: 1.1 }",
        "random_resized_crop { size: 8 ratio: nan ratio: 1 }",
        "random_rotation { degrees: -1 }",
        "random_rotation { degrees: 181 }",
        "color_jitter { contrast: -0.1 }",
        "color_jitter { saturation: nan }",
        "color_jitter { maximum: 0 }",
        "random_erasing { p: -1 }",
        "random_erasing { scale: 0.1 scale: 2 }",
        "random_erasing { value: inf }"}) {
    EXPECT_NE(ErrorOf(transform), "") << transform;
  }
}

TEST(TransformCheckTest, BoundsTheNumberOfTransforms) {
  std::string many;
  for (int i = 0; i < 32; ++i) many += "transforms { to_float {} } ";
  EXPECT_TRUE(CheckTransforms(DataOf(many)).ok());
  EXPECT_EQ(
      CheckTransforms(DataOf(many + "transforms { to_float {} }")).message(),
      "data.transforms has 33 transforms; at most 32 are allowed");
}

TEST(TransformCheckTest, KnowsWhatMovesPixels) {
  const auto moves = [](const std::string& transform) {
    return MovesPixels(
        DataOf("transforms { " + transform + " }").transforms(0));
  };
  EXPECT_TRUE(moves("center_crop {}"));
  EXPECT_TRUE(moves("random_rotation {}"));
  EXPECT_FALSE(moves("color_jitter {}"));
  EXPECT_FALSE(moves("random_erasing {}"));
  EXPECT_FALSE(moves("random_mask {}"));
}

}  // namespace
}  // namespace gpupool::engine
