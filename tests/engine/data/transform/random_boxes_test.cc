#include "engine/data/transform/random_boxes.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace gpupool::engine {
namespace {

constexpr ImageShape kImage = {3, 20, 30};

bool IsInside(const ImageBox& box, const ImageShape& image) {
  return box.top >= 0 && box.left >= 0 &&
         box.top + box.height <= image.height &&
         box.left + box.width <= image.width;
}

TEST(RandomBoxesTest, CropsReachEveryPlace) {
  Philox random(4);
  std::set<int64_t> tops, lefts;
  for (int i = 0; i < 1000; ++i) {
    const ImageBox box =
        DrawCrop(kImage, {.height = 18, .width = 29}, 1, random);
    EXPECT_EQ(box.height, 18);
    EXPECT_EQ(box.width, 29);
    tops.insert(box.top);
    lefts.insert(box.left);
  }
  // The padded image is 22 x 32 and begins at -1.
  EXPECT_EQ(tops, (std::set<int64_t>{-1, 0, 1, 2, 3}));
  EXPECT_EQ(lefts, (std::set<int64_t>{-1, 0, 1, 2}));
}

TEST(RandomBoxesTest, ACropOfTheWholeImageHasOnePlace) {
  Philox random(4);
  const ImageBox box = DrawCrop(kImage, {.height = 20, .width = 30}, 0, random);
  EXPECT_EQ(box.top, 0);
  EXPECT_EQ(box.left, 0);
}

TEST(RandomBoxesTest, CentresAreThoseOfTorchvision) {
  // int(round((20 - 15) / 2)) is 2 and int(round((30 - 27) / 2)) is 2.
  const ImageBox part = CentreBox(kImage, 15, 27);
  EXPECT_EQ(part.top, 2);
  EXPECT_EQ(part.left, 2);
  // A larger box adds (23 - 20) // 2 rows above and (35 - 30) // 2 columns.
  const ImageBox larger = CentreBox(kImage, 23, 35);
  EXPECT_EQ(larger.top, -1);
  EXPECT_EQ(larger.left, -2);
}

TEST(RandomBoxesTest, ResizedCropsHaveTheirAreaAndForm) {
  Philox random(5);
  const BoxRanges ranges = {{0.2, 0.5}, {0.75, 1.25}};
  std::set<int64_t> widths;
  for (int i = 0; i < 1000; ++i) {
    const ImageBox box = DrawResizedCrop(kImage, ranges, random);
    ASSERT_TRUE(IsInside(box, kImage));
    widths.insert(box.width);
    // Each side is rounded by at most half a pixel.
    const auto height = static_cast<double>(box.height);
    const auto width = static_cast<double>(box.width);
    EXPECT_GE((height + 0.5) * (width + 0.5), 0.2 * 600);
    EXPECT_LE((height - 0.5) * (width - 0.5), 0.5 * 600);
    EXPECT_GE((width + 0.5) / (height - 0.5), 0.75);
    EXPECT_LE((width - 0.5) / (height + 0.5), 1.25);
  }
  EXPECT_GT(widths.size(), 5u);
}

TEST(RandomBoxesTest, AFormThatNeverFitsGivesTheLargestPartInTheCentre) {
  Philox random(5);
  // The whole area in a form of 3 : 1 does not fit into 30 x 20.
  const ImageBox wide = DrawResizedCrop(kImage, {{1, 1}, {3, 3}}, random);
  EXPECT_EQ(wide.width, 30);
  EXPECT_EQ(wide.height, 10);
  EXPECT_EQ(wide.top, 5);
  const ImageBox square = DrawResizedCrop(kImage, {{1, 1}, {1, 1}}, random);
  EXPECT_EQ(square.width, 20);
  EXPECT_EQ(square.height, 20);
  EXPECT_EQ(square.left, 5);
}

TEST(RandomBoxesTest, ErasedPartsAreSmallerThanTheImage) {
  Philox random(6);
  int found = 0;
  for (int i = 0; i < 1000; ++i) {
    const auto box = DrawErasedBox(kImage, {{0.02, 0.33}, {0.3, 3.3}}, random);
    if (!box.has_value()) continue;
    ++found;
    ASSERT_TRUE(IsInside(*box, kImage));
    EXPECT_LT(box->height, kImage.height);
    EXPECT_LT(box->width, kImage.width);
  }
  EXPECT_GT(found, 900);
  EXPECT_FALSE(DrawErasedBox(kImage, {{1, 1}, {1, 1}}, random).has_value())
      << "a square of the image's area is higher than the image";
}

TEST(RandomBoxesTest, TheLargestBoxHasTheFormOfTheNumbers) {
  const ImageBox square = LargestBox(kImage, 8, 8);
  EXPECT_EQ(square.height, 20);
  EXPECT_EQ(square.width, 20);
  EXPECT_EQ(square.left, 5);
  const ImageBox wide = LargestBox(kImage, 10, 30);
  EXPECT_EQ(wide.height, 10);
  EXPECT_EQ(wide.width, 30);
  EXPECT_EQ(wide.top, 5);
  const ImageBox thin = LargestBox({1, 2, 2}, 1000, 1);
  EXPECT_EQ(thin.height, 2);
  EXPECT_EQ(thin.width, 1);
}

TEST(RandomBoxesTest, NumbersAreFromTheRange) {
  Philox random(7);
  double sum = 0;
  for (int i = 0; i < 1000; ++i) {
    const double number = DrawFrom({-2, 4}, random);
    ASSERT_GE(number, -2);
    ASSERT_LT(number, 4);
    sum += number;
  }
  // The deviation of the mean is 6 / sqrt(12 * 1000), which is 0.055.
  EXPECT_NEAR(sum / 1000, 1, 0.3);
}

}  // namespace
}  // namespace gpupool::engine
