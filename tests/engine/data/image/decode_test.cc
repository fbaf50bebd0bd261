#include "engine/data/image/decode.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/engine/data/image_files.h"

namespace gpupool::engine {
namespace {

using files::Jpeg;
using files::Plain;
using files::Png;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(DecodeTest, TellsFilesByTheirBytes) {
  EXPECT_TRUE(DecodeImage(Jpeg(Plain(8, 8, "\1")), 1).ok());
  EXPECT_TRUE(DecodeImage(Png(Plain(1, 1, "\1\2\3")), 3).ok());
  EXPECT_THAT(DecodeImage("GIF89a", 3).status().message(),
              HasSubstr("neither JPEG nor PNG"));
  EXPECT_THAT(DecodeImage("", 3).status().message(), HasSubstr("is empty"));
}

TEST(DecodeTest, MakesGreyOfColorsAndColorsOfGrey) {
  // 0.299 * 200 + 0.587 * 100 + 0.114 * 50 = 124.2
  const auto grey = DecodeImage(Png(Plain(1, 1, "\xc8\x64\x32")), 1);
  ASSERT_TRUE(grey.ok()) << grey.status();
  EXPECT_EQ(grey->channels, 1u);
  EXPECT_THAT(grey->pixels, ElementsAre(124));
  const auto white = DecodeImage(Png(Plain(1, 1, "\xff\xff\xff")), 1);
  ASSERT_TRUE(white.ok()) << white.status();
  EXPECT_THAT(white->pixels, ElementsAre(255));
  const auto colors =
      DecodeImage(Png({2, 1, "\5\6"}, {.color = PNG_COLOR_TYPE_GRAY}), 3);
  ASSERT_TRUE(colors.ok()) << colors.status();
  EXPECT_EQ(colors->channels, 3u);
  EXPECT_THAT(colors->pixels, ElementsAre(5, 5, 5, 6, 6, 6));
}

}  // namespace
}  // namespace gpupool::engine
