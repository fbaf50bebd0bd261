#include "engine/data/image/resize.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace gpupool::engine {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

std::vector<uint8_t> Stretched(const DecodedImage& image, ImageSize size) {
  return ResizeImage(image, size, ImageFit::kStretch).pixels;
}

std::vector<uint8_t> Cropped(const DecodedImage& image, ImageSize size) {
  return ResizeImage(image, size, ImageFit::kCrop).pixels;
}

// 5 x 3 pixels: 37 i modulo 256.
DecodedImage Ramp() {
  DecodedImage image = {5, 3, 1, {}};
  for (int i = 0; i < 15; ++i) {
    image.pixels.push_back(static_cast<uint8_t>(37 * i));
  }
  return image;
}

// The numbers are those of Pillow 9.4: Image.resize(size, Image.BILINEAR).
TEST(ResizeTest, GivesTheNumbersOfPillow) {
  const DecodedImage line = {4, 1, 1, {0, 100, 200, 60}};
  EXPECT_THAT(Stretched(line, {2, 1}), ElementsAre(71, 126));
  EXPECT_THAT(Stretched(line, {3, 1}), ElementsAre(30, 150, 102));
  EXPECT_THAT(Stretched(line, {8, 1}),
              ElementsAre(0, 25, 75, 125, 175, 165, 95, 60));
  EXPECT_THAT(Stretched(Ramp(), {2, 2}), ElementsAre(80, 89, 151, 110));
  EXPECT_THAT(
      Stretched(Ramp(), {3, 4}),
      ElementsAre(16, 74, 132, 132, 65, 88, 174, 108, 76, 130, 188, 100));
}

TEST(ResizeTest, CropsTheMiddleOfTheLongerSide) {
  // Resized to 3 x 2, of which the first two columns are taken.
  EXPECT_THAT(Cropped(Ramp(), {2, 2}), ElementsAre(85, 69, 157, 140));
  // 2.5 and 1.5 columns on the left: a half goes to the even number.
  DecodedImage seven = {7, 2, 1, {}};
  DecodedImage five = {5, 2, 1, {}};
  for (uint8_t i = 0; i < 14; ++i) seven.pixels.push_back(10 * i);
  for (uint8_t i = 0; i < 10; ++i) five.pixels.push_back(10 * i);
  EXPECT_THAT(Cropped(seven, {2, 2}), ElementsAre(20, 30, 90, 100));
  EXPECT_THAT(Cropped(five, {2, 2}), ElementsAre(20, 30, 70, 80));
  const DecodedImage tall = {1, 4, 1, {1, 2, 3, 4}};
  EXPECT_THAT(Cropped(tall, {1, 2}), ElementsAre(2, 3));
}

TEST(ResizeTest, KeepsTheChannelsApart) {
  const DecodedImage image = {
      2, 2, 3, {10, 0, 7, 20, 0, 7, 30, 0, 7, 40, 0, 7}};
  EXPECT_EQ(Stretched(image, {2, 2}), image.pixels);
  EXPECT_THAT(Stretched(image, {1, 1}), ElementsAre(25, 0, 7));
}

// Only the part that is shown is computed: the whole would have 2^28 pixels.
TEST(ResizeTest, ExtremeProportionsTakeLittleMemory) {
  const DecodedImage line = {1, 16384, 1, std::vector<uint8_t>(16384, 9)};
  const std::vector<uint8_t> shown = Cropped(line, {128, 128});
  EXPECT_EQ(shown.size(), 128u * 128u);
  EXPECT_THAT(shown, Each(9));
}

}  // namespace
}  // namespace gpupool::engine
