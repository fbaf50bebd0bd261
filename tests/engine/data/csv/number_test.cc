#include "engine/data/csv/number.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <random>
#include <string>

namespace gpupool::engine {
namespace {

TEST(ParseNumberTest, AcceptsDecimalNumbers) {
  EXPECT_EQ(ParseNumber("0"), 0.0);
  EXPECT_EQ(ParseNumber("16"), 16.0);
  EXPECT_EQ(ParseNumber("-3.25"), -3.25);
  EXPECT_EQ(ParseNumber("+7"), 7.0);
  EXPECT_EQ(ParseNumber(".5"), 0.5);
  EXPECT_EQ(ParseNumber("5."), 5.0);
  EXPECT_EQ(ParseNumber("1e3"), 1000.0);
  EXPECT_EQ(ParseNumber("-1.5E-2"), -0.015);
  EXPECT_EQ(ParseNumber("123456789012345678"), 123456789012345678.0);
  EXPECT_EQ(ParseNumber("1e-400"), 0.0);
}

TEST(ParseNumberTest, RefusesEverythingElse) {
  for (const char* text :
       {"", "-", "+", ".", "-.", "1x", "x1", "1 2", "--1", "+-1", "-+1", "1e",
        "nan", "inf", "-inf", "0x10", "1e400", "1.2.3", "1,2"}) {
    EXPECT_FALSE(ParseNumber(text).has_value()) << text;
  }
}

TEST(LooksLikeNumberTest, TellsBrokenNumbersFromWords) {
  for (const char* text : {"inf", "-Infinity", "nan", "1e400", "1,234", "$5",
                           "12%", "1 000", "1.2.3", "+49 30", "--1"}) {
    EXPECT_TRUE(LooksLikeNumber(text)) << text;
  }
  for (const char* text : {"", "-", ".", "red", "C85", "10-20", "2020-01-31",
                           "12:30", "3rd", "info"}) {
    EXPECT_FALSE(LooksLikeNumber(text)) << text;
  }
}

TEST(ParseNumberTest, AgreesWithTheStandardLibraryToTheLastBit) {
  const unsigned seed = 20240611;
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  for (int i = 0; i < 20000; ++i) {
    std::string text = std::to_string(random() >> (random() % 64));
    text.insert(random() % (text.size() + 1), ".");
    if (random() % 4 == 0) text += "e-" + std::to_string(random() % 30);
    if (random() % 2 == 0) text = "-" + text;
    const auto value = ParseNumber(text);
    ASSERT_TRUE(value.has_value()) << text;
    ASSERT_EQ(*value, std::strtod(text.c_str(), nullptr)) << text;
  }
}

}  // namespace
}  // namespace gpupool::engine
