#include "client/text/utf8.h"

#include <gtest/gtest.h>

#include <string>

namespace gpupool::client {
namespace {

TEST(Utf8Test, CharactersOfOneToFourBytesAreUtf8) {
  EXPECT_TRUE(IsUtf8(""));
  EXPECT_TRUE(IsUtf8("a\n\x7F"));
  EXPECT_TRUE(IsUtf8(std::string(1, '\0')));
  EXPECT_TRUE(IsUtf8("\xC2\x80 \xDF\xBF"));
  EXPECT_TRUE(IsUtf8("\xE0\xA0\x80 \xED\x9F\xBF \xEF\xBF\xBF"));
  EXPECT_TRUE(IsUtf8("\xF0\x90\x80\x80 \xF4\x8F\xBF\xBF"));
}

TEST(Utf8Test, OtherBytesAreNot) {
  for (const char* text : {"\xFF", "a\x80", "\xC3", "\xC3 ", "\xE2\x82",
                           "\xF0\x9F\x98", "\xE9t\xE9"}) {
    EXPECT_FALSE(IsUtf8(text)) << text;
  }
}

TEST(Utf8Test, LongFormsSurrogatesAndLargeNumbersAreNot) {
  for (const char* text :
       {"\xC0\x80", "\xC1\xBF", "\xE0\x9F\xBF", "\xF0\x8F\xBF\xBF",
        "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80"}) {
    EXPECT_FALSE(IsUtf8(text)) << text;
  }
}

}  // namespace
}  // namespace gpupool::client
