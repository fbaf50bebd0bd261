#include "client/text/quote.h"

#include <gtest/gtest.h>

namespace gpupool::client {
namespace {

TEST(QuoteTest, ShortWordsAreShownWhole) {
  EXPECT_EQ(Quoted("relu"), "'relu'");
  EXPECT_EQ(Quoted(""), "''");
  EXPECT_EQ(Quoted("größe \"x\""), "'größe \"x\"'");
  EXPECT_EQ(Quoted(std::string(40, 'a')), "'" + std::string(40, 'a') + "'");
}

TEST(QuoteTest, LongWordsAreCut) {
  EXPECT_EQ(Quoted(std::string(1 << 20, 'a')),
            "'" + std::string(40, 'a') + "...'");
}

TEST(QuoteTest, ACharacterOfSeveralBytesIsNotCutInTwo) {
  const std::string text = std::string(39, 'a') + "\xE2\x82\xAC" + "more";
  EXPECT_EQ(Quoted(text), "'" + std::string(39, 'a') + "...'");
}

TEST(QuoteTest, BytesThatAreNoTextAreCutToo) {
  EXPECT_LE(Quoted(std::string(100, '\x80')).size(), 45u);
}

TEST(QuoteTest, PrintableTextStaysAsItIs) {
  EXPECT_EQ(Printable("it's a \"path\": C:\\data, größe"),
            "it's a \"path\": C:\\data, größe");
  EXPECT_EQ(Printable("a\tb\x1b[2J"), "a\\tb\\x1b[2J");
  EXPECT_EQ(Printable(std::string(100, 'a')), std::string(100, 'a'));
}

TEST(QuoteTest, ControlCharactersAreEscaped) {
  EXPECT_EQ(Quoted("a\nb\x1b[2J\r"), "'a\\nb\\x1b[2J\\r'");
  EXPECT_EQ(Quoted(absl::string_view("\0x\x7f", 3)), "'\\x00x\\x7f'");
}

}  // namespace
}  // namespace gpupool::client
