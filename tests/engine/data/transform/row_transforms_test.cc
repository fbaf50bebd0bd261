#include "engine/data/transform/row_transforms.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "engine/data/transform/transform_check.h"

namespace gpupool::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr ImageShape kRows = {1, 4, 6};

absl::StatusOr<RowTransforms> Make(const std::string& text,
                                   const ImageShape& shape = kRows,
                                   bool integers = true) {
  v1::DataSpec data;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &data));
  EXPECT_TRUE(CheckTransforms(data).ok()) << CheckTransforms(data);
  return RowTransforms::Create(data, "x", shape, integers);
}

std::string MakeErrorOf(const std::string& text,
                        const ImageShape& shape = kRows) {
  return std::string(Make(text, shape).status().message());
}

// Returns an image whose pixels are 1, 2, 3, ...
Image Counted(const ImageShape& shape = kRows) {
  Image image = {.shape = shape};
  for (int64_t i = 0; i < shape.numbers(); ++i) {
    image.pixels.push_back(static_cast<float>(i + 1));
  }
  return image;
}

std::vector<float> Trained(const RowTransforms& transforms, const RowKey& key) {
  Image image = Counted(transforms.before());
  transforms.Train(key, image);
  EXPECT_EQ(image.shape, transforms.after());
  EXPECT_EQ(image.pixels.size(),
            static_cast<size_t>(transforms.after().numbers()));
  return image.pixels;
}

std::vector<float> Evaluated(const RowTransforms& transforms) {
  Image image = Counted(transforms.before());
  transforms.Evaluate(image);
  EXPECT_EQ(image.shape, transforms.after());
  return image.pixels;
}

constexpr char kAllRandom[] = R"(
  transforms { random_resized_crop { size: 5 } }
  transforms { random_horizontal_flip {} }
  transforms { random_vertical_flip {} }
  transforms { random_rotation { degrees: 40 } }
  transforms { random_crop { size: 4 padding: 1 } }
  transforms { color_jitter { brightness: 0.5 contrast: 0.5 } }
  transforms { random_erasing {} })";

TEST(RowTransformsTest, ARowIsAFunctionOfSeedEpochAndRow) {
  const auto transforms = Make(kAllRandom);
  ASSERT_TRUE(transforms.ok()) << transforms.status();
  const std::vector<float> row = Trained(*transforms, {9, 2, 77});
  Trained(*transforms, {9, 2, 78});
  EXPECT_EQ(Trained(*transforms, {9, 2, 77}), row) << "the order is free";
  std::set<std::vector<float>> different = {row};
  different.insert(Trained(*transforms, {8, 2, 77}));
  different.insert(Trained(*transforms, {9, 3, 77}));
  different.insert(Trained(*transforms, {9, 2, 76}));
  EXPECT_EQ(different.size(), 4u);
}

TEST(RowTransformsTest, ATransformDoesNotChangeTheNumbersOfAnother) {
  // Each flip draws the same with and without the other one before it.
  const auto both = Make(
      "transforms { random_vertical_flip { p: 0 } } "
      "transforms { random_horizontal_flip {} }");
  const auto erased = Make(
      "transforms { random_erasing { p: 0 } } "
      "transforms { random_horizontal_flip {} }");
  ASSERT_TRUE(both.ok() && erased.ok());
  for (uint32_t row = 0; row < 20; ++row) {
    EXPECT_EQ(Trained(*both, {1, 0, row}), Trained(*erased, {1, 0, row}));
  }
}

TEST(RowTransformsTest, FlipsAsOftenAsAsked) {
  const auto half = Make("transforms { random_horizontal_flip {} }");
  const auto never = Make("transforms { random_horizontal_flip { p: 0 } }");
  const auto always = Make("transforms { random_vertical_flip { p: 1 } }");
  ASSERT_TRUE(half.ok() && never.ok() && always.ok());
  const std::vector<float> plain = Counted().pixels;
  int flipped = 0;
  for (uint32_t row = 0; row < 1000; ++row) {
    flipped += Trained(*half, {1, 0, row}) != plain ? 1 : 0;
    EXPECT_EQ(Trained(*never, {1, 0, row}), plain);
    EXPECT_NE(Trained(*always, {1, 0, row}), plain);
  }
  // The deviation is sqrt(1000 / 4), about 16.
  EXPECT_NEAR(flipped, 500, 80);
}

TEST(RowTransformsTest, RandomOnesDoNotTouchEvaluatedRows) {
  const auto transforms = Make(
      "transforms { random_horizontal_flip { p: 1 } } "
      "transforms { random_rotation { degrees: 90 } } "
      "transforms { color_jitter { brightness: 1 } } "
      "transforms { random_erasing { p: 1 } } "
      "transforms { to_float { factor: 2 } }");
  ASSERT_TRUE(transforms.ok());
  std::vector<float> wanted = Counted().pixels;
  for (float& x : wanted) x *= 2;
  EXPECT_EQ(Evaluated(*transforms), wanted);
}

TEST(RowTransformsTest, EvaluationTakesTheCentreOfRandomCrops) {
  const auto crop = Make("transforms { random_crop { size: 2 } }");
  ASSERT_TRUE(crop.ok());
  EXPECT_EQ(crop->after(), (ImageShape{1, 2, 2}));
  // Rows 1 and 2 of 4, columns 2 and 3 of 6; pixels count from 1.
  EXPECT_THAT(Evaluated(*crop), ElementsAre(9, 10, 15, 16));
  const auto padded =
      Make("transforms { random_crop { size: [4, 6] padding: 2 } }");
  ASSERT_TRUE(padded.ok());
  EXPECT_EQ(Evaluated(*padded), Counted().pixels) << "without the padding";
  const auto resized = Make("transforms { random_resized_crop { size: 4 } }");
  ASSERT_TRUE(resized.ok());
  EXPECT_THAT(Evaluated(*resized), ElementsAre(2, 3, 4, 5, 8, 9, 10, 11, 14, 15,
                                               16, 17, 20, 21, 22, 23));
}

TEST(RowTransformsTest, PlainOnesApplyToAllRowsAlike) {
  const auto transforms = Make(
      "transforms { center_crop { size: [2, 2] } } "
      "transforms { to_float { factor: 0.5 } } "
      "transforms { normalize { mean: 1 std: 2 } }");
  ASSERT_TRUE(transforms.ok());
  EXPECT_THAT(Evaluated(*transforms), ElementsAre(1.75, 2, 3.25, 3.5));
  EXPECT_EQ(Trained(*transforms, {1, 0, 5}), Evaluated(*transforms));
}

TEST(RowTransformsTest, OneSizeIsASquareOrTheShorterSide) {
  const auto shape_after = [](const std::string& text, ImageShape shape) {
    const auto made = Make(text, shape);
    EXPECT_TRUE(made.ok()) << made.status();
    return made->after();
  };
  EXPECT_EQ(shape_after("transforms { center_crop { size: 3 } }", kRows),
            (ImageShape{1, 3, 3}));
  EXPECT_EQ(shape_after("transforms { resize { size: 2 } }", kRows),
            (ImageShape{1, 2, 3}));
  EXPECT_EQ(shape_after("transforms { resize { size: 5 } }", {3, 10, 7}),
            (ImageShape{3, 7, 5}));  // int(5 * 10 / 7) is 7
  EXPECT_EQ(shape_after("transforms { resize { size: [2, 9] } }", kRows),
            (ImageShape{1, 2, 9}));
}

TEST(RowTransformsTest, TransformsOfOtherInputsAreLeftOut) {
  const auto transforms = Make(
      "transforms { input: 'y' to_float { factor: 7 } } "
      "transforms { input: 'x' to_float { factor: 3 } }");
  ASSERT_TRUE(transforms.ok());
  EXPECT_EQ(Evaluated(*transforms)[0], 3);
  EXPECT_TRUE(Make("transforms { input: 'y' to_float {} }")->empty());
}

TEST(RowTransformsTest, ColorsAreCutAtTheLargestPixel) {
  const auto most = [](const std::string& before, bool integers) {
    const auto made =
        Make(before + " transforms { color_jitter { brightness: 900 } }",
             {1, 1, 1}, integers);
    EXPECT_TRUE(made.ok()) << made.status();
    float largest = 0;
    for (uint32_t row = 0; row < 100; ++row) {
      largest = std::max(largest, Trained(*made, {1, 0, row})[0]);
    }
    return largest;
  };
  EXPECT_EQ(most("", true), 255);
  EXPECT_EQ(most("", false), 1);
  EXPECT_EQ(most("transforms { to_float {} }", true), 1);
  const auto own = Make(
      "transforms { color_jitter { brightness: 900 maximum: 16 } }", {1, 1, 1});
  ASSERT_TRUE(own.ok());
  for (uint32_t row = 0; row < 20; ++row) {
    EXPECT_LE(Trained(*own, {1, 0, row})[0], 16);
  }
}

TEST(RowTransformsTest, SaysWhatDoesNotFit) {
  EXPECT_EQ(MakeErrorOf("transforms { to_float {} } "
                        "transforms { random_crop { size: [5, 6] } }"),
            "data.transforms[1].random_crop: size [5,6] is larger than the "
            "image of 4 x 6 with padding 0; lower it, or put resize before it");
  EXPECT_EQ(
      MakeErrorOf("transforms { normalize { mean: [1, 2, 3] std: 1 } }"),
      "data.transforms[0].normalize: mean has 3 numbers, but the image has 1 "
      "channels; give one for each, or one for all");
  EXPECT_THAT(MakeErrorOf("transforms { normalize { mean: 0 std: 1 } } "
                          "transforms { color_jitter {} }"),
              HasSubstr("put it before normalize"));
  EXPECT_THAT(MakeErrorOf("transforms { resize { size: 16384 } }", {1, 1, 1}),
              HasSubstr("at most 67108864 are allowed"));
}

}  // namespace
}  // namespace gpupool::engine
