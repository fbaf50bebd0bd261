#include "engine/data/image/png.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "tests/engine/data/image_files.h"

namespace gpupool::engine {
namespace {

using files::Picture;
using files::Plain;
using files::Png;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(PngTest, DecodesColors) {
  for (const bool interlaced : {false, true}) {
    const auto image =
        DecodePng(Png({1, 2, "\1\2\3\4\5\6"}, {.interlaced = interlaced}));
    ASSERT_TRUE(image.ok()) << image.status();
    EXPECT_EQ(image->width, 1u);
    EXPECT_EQ(image->height, 2u);
    EXPECT_EQ(image->channels, 3u);
    EXPECT_THAT(image->pixels, ElementsAre(1, 2, 3, 4, 5, 6));
  }
}

TEST(PngTest, DropsTransparency) {
  const auto colors =
      DecodePng(Png({1, 1, "\1\2\3\4"}, {.color = PNG_COLOR_TYPE_RGB_ALPHA}));
  ASSERT_TRUE(colors.ok()) << colors.status();
  EXPECT_THAT(colors->pixels, ElementsAre(1, 2, 3));
  const auto grey =
      DecodePng(Png({1, 1, "\7\4"}, {.color = PNG_COLOR_TYPE_GRAY_ALPHA}));
  ASSERT_TRUE(grey.ok()) << grey.status();
  EXPECT_EQ(grey->channels, 1u);
  EXPECT_THAT(grey->pixels, ElementsAre(7));
}

TEST(PngTest, UnpacksPalettesAndFewBits) {
  const auto palette = DecodePng(Png(
      {2, 1, std::string("\1\0", 2)},
      {.color = PNG_COLOR_TYPE_PALETTE, .palette = {{1, 2, 3}, {4, 5, 6}}}));
  ASSERT_TRUE(palette.ok()) << palette.status();
  EXPECT_THAT(palette->pixels, ElementsAre(4, 5, 6, 1, 2, 3));
  // Pixels 1, 0 and 1 in one byte.
  const auto bits =
      DecodePng(Png({3, 1, "\xa0"}, {.color = PNG_COLOR_TYPE_GRAY, .bits = 1}));
  ASSERT_TRUE(bits.ok()) << bits.status();
  EXPECT_THAT(bits->pixels, ElementsAre(255, 0, 255));
}

TEST(PngTest, ScalesSixteenBitsToEight) {
  // 257 * 100 is 100 of 255; one more rounds to it.
  const auto image = DecodePng(Png({2, 1, std::string("\x64\x64\x64\x65", 4)},
                                   {.color = PNG_COLOR_TYPE_GRAY, .bits = 16}));
  ASSERT_TRUE(image.ok()) << image.status();
  EXPECT_THAT(image->pixels, ElementsAre(100, 100));
}

TEST(PngTest, RefusesDamagedFiles) {
  const std::string whole = Png(Plain(64, 64, "\x40\x80\xc0"));
  std::string spoiled = whole;
  spoiled[whole.size() / 2] ^= 1;
  for (const std::string& bytes :
       {whole.substr(0, whole.size() / 2), whole.substr(0, 20), spoiled,
        std::string("\x89PNG"), std::string()}) {
    const auto image = DecodePng(bytes);
    EXPECT_TRUE(absl::IsInvalidArgument(image.status())) << image.status();
    EXPECT_THAT(image.status().message(), HasSubstr("no PNG file"));
  }
}

TEST(PngTest, RefusesDimensionsThatOnlyTheHeaderHas) {
  // The checksum of the header is right, so its numbers are believed.
  Picture line = Plain(16384, 1, "\1");
  const std::string bytes = Png(line, {.color = PNG_COLOR_TYPE_GRAY});
  ASSERT_TRUE(DecodePng(bytes).ok());
  const auto tall =
      DecodePng(Png(Plain(1, 16385, "\1"), {.color = PNG_COLOR_TYPE_GRAY}));
  EXPECT_THAT(tall.status().message(), HasSubstr("IHDR"));
  EXPECT_THAT(CheckImageSize(16384, 16384).message(),
              HasSubstr("has 16384 x 16384 pixels"));
  EXPECT_FALSE(CheckImageSize(0, 1).ok());
  EXPECT_TRUE(CheckImageSize(8192, 8192).ok());
}

TEST(PngTest, SurvivesAnyDamage) {
  const std::string whole = Png(Plain(16, 16, "\x40\x80\xc0"));
  std::mt19937 random(5);
  int refused = 0;
  for (int i = 0; i < 500; ++i) {
    std::string bytes = whole;
    bytes[random() % bytes.size()] = static_cast<char>(random());
    if (!DecodePng(bytes).ok()) ++refused;
  }
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace gpupool::engine
