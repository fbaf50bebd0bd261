#include "engine/data/transform/image_color.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpupool::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::Pointwise;

// Returns red, green and blue of 2 x 2 pixels: i * 5 % 12 / 12.
Image Colors() {
  Image image = {.shape = {3, 2, 2}};
  for (int i = 0; i < 12; ++i) {
    image.pixels.push_back(static_cast<float>(i * 5 % 12) / 12);
  }
  return image;
}

// Expects numbers that torchvision 0.14.1 computed of Colors().
void ExpectColors(const Image& image, const std::vector<float>& wanted) {
  EXPECT_THAT(image.pixels, Pointwise(FloatNear(1e-6f), wanted));
}

TEST(ImageColorTest, BrightnessMultipliesAndIsCut) {
  Image image = Colors();
  AdjustBrightness(1.5f, 1, image);
  ExpectColors(image, {0, 0.625f, 1, 0.375f, 1, 0.125f, 0.75f, 1, 0.5f, 1,
                       0.25f, 0.875f});
  image = Colors();
  AdjustBrightness(0, 1, image);
  EXPECT_EQ(image.pixels, std::vector<float>(12, 0));
}

TEST(ImageColorTest, ContrastMovesPixelsFromTheirMean) {
  Image image = Colors();
  AdjustContrast(0.5f, 1, image);
  ExpectColors(image, {0.24114794f, 0.44948125f, 0.65781462f, 0.36614794f,
                       0.57448125f, 0.28281459f, 0.49114794f, 0.69948125f,
                       0.40781462f, 0.61614794f, 0.32448128f, 0.53281462f});
  Image grey = {.shape = {1, 1, 2}, .pixels = {0.25f, 0.75f}};
  AdjustContrast(2, 1, grey);
  EXPECT_THAT(grey.pixels, ElementsAre(0, 1));
}

TEST(ImageColorTest, SaturationMovesPixelsFromTheirGrey) {
  Image image = Colors();
  AdjustSaturation(1.5f, 1, image);
  ExpectColors(image,
               {0, 0.49552083f, 0.96920836f, 0.03534582f, 0.78533334f, 0,
                0.46920833f, 1, 0.28533334f, 0.99552083f, 0, 0.53534579f});
  Image grey = {.shape = {1, 1, 2}, .pixels = {0.25f, 0.75f}};
  AdjustSaturation(2, 1, grey);
  EXPECT_THAT(grey.pixels, ElementsAre(0.25f, 0.75f));
}

TEST(ImageColorTest, ResultsAreCutAtTheLargestPixel) {
  Image bytes = {.shape = {1, 1, 2}, .pixels = {100, 200}};
  AdjustBrightness(2, 255, bytes);
  EXPECT_THAT(bytes.pixels, ElementsAre(200, 255));
}

TEST(ImageColorTest, NormalizesByChannel) {
  Image image = Colors();
  NormalizeChannels({0.5f, 0.25f, 0.1f}, {0.5f, 2, 4}, image);
  ExpectColors(image, {-1, -0.16666669f, 0.66666663f, -0.5f, 0.20833334f,
                       -0.08333333f, 0.125f, 0.33333334f, 0.05833334f,
                       0.16249999f, 0.01666667f, 0.12083333f});
  Image other = {.shape = {2, 1, 1}, .pixels = {3, 5}};
  NormalizeChannels({1}, {2}, other);
  EXPECT_THAT(other.pixels, ElementsAre(1, 2)) << "one number for all";
  Multiply(3, other);
  EXPECT_THAT(other.pixels, ElementsAre(3, 6));
}

}  // namespace
}  // namespace gpupool::engine
