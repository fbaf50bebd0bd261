#include "engine/data/transform/image.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpupool::engine {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::Pointwise;

// Returns two channels of 3 x 4 pixels: i * 7 % 23.
Image Pixels() {
  Image image = {.shape = {2, 3, 4}};
  for (int i = 0; i < 24; ++i) {
    image.pixels.push_back(static_cast<float>(i * 7 % 23));
  }
  return image;
}

// Expects numbers that torchvision 0.14.1 computed of Pixels().
void ExpectNear(const Image& image, const std::vector<float>& wanted) {
  EXPECT_EQ(static_cast<size_t>(image.shape.numbers()), wanted.size());
  EXPECT_THAT(image.pixels, Pointwise(FloatNear(2e-5f), wanted));
}

TEST(ImageTest, FlipsEachChannel) {
  Image image = Pixels();
  FlipHorizontally(image);
  EXPECT_THAT(image.pixels,
              ElementsAre(21, 14, 7, 0, 3, 19, 12, 5, 8, 1, 17, 10, 13, 6, 22,
                          15, 18, 11, 4, 20, 0, 16, 9, 2));
  FlipHorizontally(image);
  EXPECT_EQ(image.pixels, Pixels().pixels);
  FlipVertically(image);
  EXPECT_THAT(image.pixels,
              ElementsAre(10, 17, 1, 8, 5, 12, 19, 3, 0, 7, 14, 21, 2, 9, 16, 0,
                          20, 4, 11, 18, 15, 22, 6, 13));
}

TEST(ImageTest, CropsAndPadsWithZeros) {
  Image image = Pixels();
  Crop({1, 2, 2, 2}, image);
  EXPECT_EQ(image.shape, (ImageShape{2, 2, 2}));
  EXPECT_THAT(image.pixels, ElementsAre(19, 3, 1, 8, 11, 18, 16, 0));
  image = Pixels();
  Crop({-1, 1, 3, 4}, image);
  EXPECT_THAT(image.pixels,
              ElementsAre(0, 0, 0, 0, 7, 14, 21, 0, 12, 19, 3, 0,  //
                          0, 0, 0, 0, 22, 6, 13, 0, 4, 11, 18, 0));
  image = Pixels();
  Crop({5, 9, 2, 2}, image);
  EXPECT_EQ(image.pixels.size(), 8u);
  EXPECT_THAT(image.pixels, Each(0)) << "beyond the image";
}

TEST(ImageTest, RotatesCounterclockwiseToTheNearestPixel) {
  Image square = {.shape = {1, 3, 3}, .pixels = {0, 1, 2, 3, 4, 5, 6, 7, 8}};
  Rotate(90, square);
  EXPECT_THAT(square.pixels, ElementsAre(2, 5, 8, 1, 4, 7, 0, 3, 6));
  Image image = Pixels();
  Rotate(0, image);
  EXPECT_EQ(image.pixels, Pixels().pixels);
  Rotate(30, image);
  ExpectNear(image, {0, 14, 14, 3,  0,  12, 19, 8, 5,  17, 17, 0,
                     0, 6,  6,  18, 15, 4,  11, 0, 20, 9,  9,  0});
}

TEST(ImageTest, ErasesAPartOfAllChannels) {
  Image image = {.shape = {2, 2, 3}, .pixels = std::vector<float>(12, 1)};
  Erase({1, 1, 1, 2}, 9, image);
  EXPECT_THAT(image.pixels, ElementsAre(1, 1, 1, 1, 9, 9, 1, 1, 1, 1, 9, 9));
  Erase({0, 0, 0, 0}, 5, image);
  EXPECT_THAT(image.pixels, ElementsAre(1, 1, 1, 1, 9, 9, 1, 1, 1, 1, 9, 9));
}

TEST(ImageTest, MakesImagesSmallerWithoutSkippingPixels) {
  Image image = Pixels();
  Resize(2, 3, image);
  EXPECT_EQ(image.shape, (ImageShape{2, 2, 3}));
  ExpectNear(image, {3.975000f, 12.375f, 14.7375f, 10.225f, 11.4375f, 6.6125f,
                     16.3875f, 11.5625f, 12.775f, 8.2625f, 10.625f, 8.9625f});
}

TEST(ImageTest, MakesImagesLargerLinearly) {
  Image image = Pixels();
  Resize(4, 6, image);
  ExpectNear(image,
             {0,       3.5f,     8.166667f,  12.833333f, 17.5f,    21,
              3.125f,  6.625f,   11.291667f, 15.958333f, 13.4375f, 9.75f,
              6.875f,  10.375f,  13.604166f, 12.520833f, 8.5625f,  4.875f,
              10,      13.5f,    14.333332f, 3.666666f,  4.5f,     8,
              15,      18.5f,    19.333332f, 8.666664f,  9.5f,     13,
              18.125f, 14.4375f, 10.479166f, 9.395833f,  12.625f,  16.125f,
              13.25f,  9.5625f,  7.041667f,  11.708333f, 12.0625f, 11.25f,
              2,       5.5f,     10.166667f, 14.833333f, 8,        0});
}

TEST(ImageTest, TheSameSizeChangesNothing) {
  Image image = Pixels();
  Resize(3, 4, image);
  EXPECT_EQ(image.pixels, Pixels().pixels);
}

}  // namespace
}  // namespace gpupool::engine
