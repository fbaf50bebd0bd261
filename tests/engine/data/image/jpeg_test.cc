#include "engine/data/image/jpeg.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "tests/engine/data/image_files.h"

namespace gpupool::engine {
namespace {

using files::Jpeg;
using files::Plain;
using ::testing::Each;
using ::testing::HasSubstr;

TEST(JpegTest, DecodesGrey) {
  // The quality 100 keeps the mean of a block exactly.
  const auto image = DecodeJpeg(Jpeg(Plain(8, 16, "\xc8")));
  ASSERT_TRUE(image.ok()) << image.status();
  EXPECT_EQ(image->width, 8u);
  EXPECT_EQ(image->height, 16u);
  EXPECT_EQ(image->channels, 1u);
  EXPECT_EQ(image->pixels.size(), 128u);
  EXPECT_THAT(image->pixels, Each(200));
}

TEST(JpegTest, DecodesColorsAlsoOfProgressiveFiles) {
  for (const bool progressive : {false, true}) {
    const auto image = DecodeJpeg(
        Jpeg(Plain(10, 6, std::string("\xf0\x40\x00", 3)), progressive));
    ASSERT_TRUE(image.ok()) << image.status();
    ASSERT_EQ(image->channels, 3u);
    ASSERT_EQ(image->pixels.size(), 180u);
    // The conversion to YCbCr and back rounds.
    EXPECT_NEAR(image->pixels[0], 0xf0, 2);
    EXPECT_NEAR(image->pixels[1], 0x40, 2);
    EXPECT_NEAR(image->pixels[2], 0x00, 2);
  }
}

TEST(JpegTest, TurnsInvertedInksIntoColors) {
  // Inks are stored inverted: 255 is none. 0x80 * 0x80 / 255 = 64.25.
  const auto image =
      DecodeJpeg(Jpeg(Plain(8, 8, std::string("\xff\x80\x00\x80", 4))));
  ASSERT_TRUE(image.ok()) << image.status();
  ASSERT_EQ(image->channels, 3u);
  ASSERT_EQ(image->pixels.size(), 192u);
  EXPECT_EQ(image->pixels[0], 0x80);
  EXPECT_EQ(image->pixels[1], 64);
  EXPECT_EQ(image->pixels[2], 0);
}

TEST(JpegTest, RefusesDamagedFiles) {
  const std::string whole = Jpeg(Plain(64, 64, "\x40\x80\xc0"));
  for (const std::string& bytes :
       {whole.substr(0, whole.size() / 2), whole.substr(0, whole.size() - 2),
        std::string("\xff\xd8\xff"), std::string()}) {
    const auto image = DecodeJpeg(bytes);
    EXPECT_TRUE(absl::IsInvalidArgument(image.status())) << image.status();
    EXPECT_THAT(image.status().message(), HasSubstr("no JPEG file"));
  }
}

TEST(JpegTest, RefusesDimensionsThatOnlyTheHeaderHas) {
  std::string bytes = Jpeg(Plain(8, 8, "\x40"));
  // Start of frame: marker, length, bits, height, width.
  const size_t frame = bytes.find("\xff\xc0");
  ASSERT_NE(frame, std::string::npos);
  bytes.replace(frame + 5, 4, "\x3e\x80\x3e\x80");  // 16000 x 16000
  EXPECT_THAT(DecodeJpeg(bytes).status().message(),
              HasSubstr("has 16000 x 16000 pixels"));
}

TEST(JpegTest, SurvivesAnyDamage) {
  const std::string whole = Jpeg(Plain(16, 16, "\x40\x80\xc0"), true);
  std::mt19937 random(5);
  int refused = 0;
  for (int i = 0; i < 500; ++i) {
    std::string bytes = whole;
    for (int spoiled = 0; spoiled < 3; ++spoiled) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    if (!DecodeJpeg(bytes).ok()) ++refused;
  }
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace gpupool::engine
