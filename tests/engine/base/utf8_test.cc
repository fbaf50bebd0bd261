#include "engine/base/utf8.h"

#include <gtest/gtest.h>

namespace gpupool::engine {
namespace {

TEST(Utf8Test, TextIsCheckedAsRfc3629Says) {
  for (const char* text : {"", "abc", "\xC3\xA9", "\xE2\x82\xAC",
                           "\xF0\x9F\x98\x80", "\xEF\xBF\xBD"}) {
    EXPECT_TRUE(IsUtf8(text)) << text;
  }
  for (const char* text :
       {"\xE9", "\xC0\x80", "\xE0\x80\x80", "\xED\xA0\x80", "\xF0\x80\x80\x80",
        "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xE2\x82", "\x80"}) {
    EXPECT_FALSE(IsUtf8(text)) << testing::PrintToString(text);
  }
}

TEST(Utf8Test, TheCharacterAtTheFrontIsMeasured) {
  EXPECT_EQ(Utf8CharacterBytes(""), 0u);
  EXPECT_EQ(Utf8CharacterBytes("ab"), 1u);
  EXPECT_EQ(Utf8CharacterBytes("\xE2\x82\xAC!"), 3u);
  EXPECT_EQ(Utf8CharacterBytes("\x80!"), 0u);
}

TEST(Utf8Test, TextIsCutBetweenCharacters) {
  EXPECT_EQ(CutUtf8("ab\xC3\xA9", 4), "ab\xC3\xA9");
  EXPECT_EQ(CutUtf8("ab\xC3\xA9", 3), "ab");
  EXPECT_EQ(CutUtf8("ab\xC3\xA9", 2), "ab");
}

}  // namespace
}  // namespace gpupool::engine
