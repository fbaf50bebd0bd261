#include "engine/data/json/line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace gpupool::engine {
namespace {

using Kind = JsonValue::Kind;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// Returns the error of the last line. Those before it have none.
std::string ErrorOf(const std::vector<std::string>& lines) {
  JsonLineParser parser;
  for (size_t i = 0; i + 1 < lines.size(); ++i) {
    EXPECT_TRUE(parser.Parse(lines[i]).ok()) << lines[i];
  }
  const absl::Status status = parser.Parse(lines.back());
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << lines.back();
  return std::string(status.message());
}

TEST(JsonLineParserTest, TellsValuesApart) {
  JsonLineParser parser;
  ASSERT_TRUE(
      parser
          .Parse(R"({"a": 1.50, "b": true, "c": null, "d": "x\u00e9\n", )"
                 R"("e": [1, null, false], "f": []})")
          .ok());
  EXPECT_THAT(parser.keys(), ElementsAre("a", "b", "c", "d", "e", "f"));
  const auto values = parser.values();
  ASSERT_EQ(values.size(), 6u);
  EXPECT_EQ(values[0].kind, Kind::kNumber);
  EXPECT_EQ(values[0].number, 1.5);
  EXPECT_EQ(NumberText(values[0]), "1.50");
  EXPECT_EQ(values[1].kind, Kind::kNumber);
  EXPECT_EQ(values[1].number, 1);
  EXPECT_EQ(NumberText(values[1]), "true");
  EXPECT_EQ(values[2].kind, Kind::kNull);
  EXPECT_EQ(values[3].kind, Kind::kText);
  EXPECT_EQ(values[3].text, "x\xC3\xA9\n");
  ASSERT_EQ(values[4].kind, Kind::kArray);
  const auto elements = parser.elements(values[4]);
  ASSERT_EQ(elements.size(), 3u);
  EXPECT_EQ(elements[0], 1);
  EXPECT_TRUE(std::isnan(elements[1]));
  EXPECT_EQ(elements[2], 0);
  EXPECT_EQ(values[5].kind, Kind::kArray);
  EXPECT_TRUE(parser.elements(values[5]).empty());
}

TEST(JsonLineParserTest, WholeNumbersKeepTheirDigits) {
  JsonLineParser parser;
  ASSERT_TRUE(parser
                  .Parse(R"({"a": 7, "b": -9007199254740993, )"
                         R"("c": 18446744073709551615, )"
                         R"("d": 123456789012345678901234567890, "e": -0})")
                  .ok());
  std::vector<std::string> texts;
  for (const JsonValue& value : parser.values()) {
    texts.push_back(NumberText(value));
  }
  EXPECT_THAT(texts,
              ElementsAre("7", "-9007199254740993", "18446744073709551615",
                          "123456789012345678901234567890", "0"));
  EXPECT_TRUE(std::signbit(parser.values()[4].number)) << "as in CSV files";
  EXPECT_EQ(NumberText(-3.0), "-3");
  EXPECT_EQ(NumberText(0.25), "0.25");
}

TEST(NumberTextTest, ReadsBackAsTheSameNumber) {
  EXPECT_EQ(NumberText(0.1), "0.1");
  EXPECT_EQ(NumberText(0.123456789), "0.123456789");
  EXPECT_EQ(NumberText(-1234567.5), "-1234567.5");
  for (const double number : {1.0 / 3.0, 5e-324, -1.7976931348623157e308}) {
    const std::string text = NumberText(number);
    EXPECT_EQ(std::strtod(text.c_str(), nullptr), number) << text;
  }
}

TEST(JsonLineParserTest, KeysOfLaterLinesComeInAnyOrderOrNotAtAll) {
  JsonLineParser parser;
  ASSERT_TRUE(parser.Parse(R"({"a": 1, "b": 2})").ok());
  ASSERT_TRUE(parser.Parse(R"({"b": 3, "a": 4})").ok());
  EXPECT_EQ(parser.values()[0].number, 4);
  EXPECT_EQ(parser.values()[1].number, 3);
  ASSERT_TRUE(parser.Parse(R"({"b": 5})").ok());
  EXPECT_EQ(parser.values()[0].kind, Kind::kAbsent);
  EXPECT_EQ(parser.values()[1].number, 5);
  ASSERT_TRUE(parser.Parse("{}").ok());
  EXPECT_EQ(parser.values()[1].kind, Kind::kAbsent);
  ASSERT_TRUE(parser.Parse(R"({"b": [6, 7]})").ok());
  EXPECT_EQ(parser.values()[0].kind, Kind::kAbsent);
  EXPECT_EQ(parser.values()[1].count, 2u);
  ASSERT_TRUE(parser.Parse(R"({"a": 8, "b": [9]})").ok());
  EXPECT_EQ(parser.values()[0].number, 8);
  EXPECT_EQ(parser.values()[1].count, 1u);
}

TEST(JsonLineParserTest, AKeyIsThereOnce) {
  EXPECT_EQ(ErrorOf({R"({"a": 1, "a": 1})"}),
            "has key \"a\" twice; give each key one value");
  EXPECT_EQ(ErrorOf({R"({"a": 1, "b": 2})", R"({"b": 1, "a": 1, "b": null})"}),
            "has key \"b\" twice; give each key one value");
  EXPECT_EQ(ErrorOf({R"({"a": 1})", R"({"a": {}, "\u0061": 1})"}),
            "has key \"a\" twice; give each key one value");
}

TEST(JsonLineParserTest, KeysAreThoseOfTheFirstObject) {
  EXPECT_EQ(ErrorOf({R"({"a": 1, "b": 2})", R"({"a": 1, "z": 2})"}),
            "has key \"z\", which the first object does not have; its keys are "
            "\"a\", \"b\"; give all objects the same keys, with null for a "
            "missing value");
  EXPECT_THAT(ErrorOf({"{}"}),
              StartsWith("holds an object without keys; write"));
  EXPECT_THAT(ErrorOf({R"({"": 1})"}),
              StartsWith("has key \"\" of 0 bytes; 1 to 255 are possible"));
  EXPECT_THAT(ErrorOf({absl::StrCat("{\"", std::string(256, 'k'), "\": 1}")}),
              HasSubstr("kk...\" of 256 bytes; 1 to 255 are possible"));
}

TEST(JsonLineParserTest, ValuesThatNoTableTakesAreNamed) {
  JsonLineParser parser;
  ASSERT_TRUE(
      parser
          .Parse(R"({"a": {"b": [1, {"a": 2}], "a": 1}, "c": [[1], 2], )"
                 R"("d": [1, "x", "y"], "e": [{"f": 1}, null], "g": 5})")
          .ok());
  EXPECT_THAT(parser.keys(), ElementsAre("a", "c", "d", "e", "g"));
  const auto values = parser.values();
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(values[i].kind, Kind::kOther) << i;
  EXPECT_STREQ(values[0].what, "an object");
  EXPECT_STREQ(values[1].what, "an array that holds an array");
  EXPECT_STREQ(values[2].what, "an array that holds a string");
  EXPECT_EQ(values[2].text, "x");
  EXPECT_STREQ(values[3].what, "an array that holds an object");
  EXPECT_EQ(values[4].number, 5);
}

TEST(JsonLineParserTest, DepthIsBounded) {
  const auto nested = [](size_t arrays) {
    return absl::StrCat("{\"a\": ", std::string(arrays, '['),
                        std::string(arrays, ']'), "}");
  };
  JsonLineParser parser;
  EXPECT_TRUE(parser.Parse(nested(kMaxJsonDepth)).ok());
  for (const size_t arrays : {kMaxJsonDepth + 1, size_t{1'000'000}}) {
    EXPECT_THAT(ErrorOf({nested(arrays)}),
                StartsWith("key \"a\": holds arrays or objects in each other, "
                           "more than 32 deep"));
  }
}

TEST(JsonLineParserTest, NamesTheByteAndTheRemedy) {
  EXPECT_EQ(ErrorOf({R"({"x": NaN})"}),
            "is not JSON at byte 7, after key \"x\", at \"NaN}\"; write null "
            "where a number is missing");
  for (const char* word : {"nan", "Infinity", "-Infinity", "inf"}) {
    EXPECT_THAT(ErrorOf({absl::StrCat("{\"x\": ", word, "}")}),
                EndsWith("write null where a number is missing"));
  }
  for (const char* word : {"None", "True", "False"}) {
    EXPECT_THAT(ErrorOf({absl::StrCat("{\"x\": ", word, "}")}),
                HasSubstr("write null, true and false"));
  }
  EXPECT_EQ(ErrorOf({"{'x': 1}"}),
            "is not JSON at byte 2, at \"\\'x\\': 1}\"; write keys and strings "
            "in double quotes");
  EXPECT_THAT(ErrorOf({R"({"x": 1, })"}),
              StartsWith("is not JSON at byte 10, after key \"x\", at \"}\""));
  EXPECT_THAT(ErrorOf({"hello"}),
              StartsWith("is not JSON at byte 1, at \"hel"));
  EXPECT_THAT(ErrorOf({"{\"x\": \"a\tb\"}"}),
              StartsWith("is not JSON at byte"));
  for (const char* half : {"\\ud800", "\\udc00", "\\ud800\\u0041"}) {
    EXPECT_THAT(ErrorOf({absl::StrCat("{\"x\": \"", half, "\"}")}),
                AllOf(StartsWith("is not JSON near byte"),
                      HasSubstr("half of a pair of surrogates; write both")));
  }
  EXPECT_THAT(ErrorOf({R"({"x": "invalid string: surrogate" 5})"}),
              HasSubstr("write each row as one object"));
  EXPECT_THAT(ErrorOf({R"({"x": 01})"}), StartsWith("is not JSON at byte"));
  EXPECT_THAT(ErrorOf({"{\"x\": 1} // one"}),
              StartsWith("goes on after its object, at byte"));
}

TEST(JsonLineParserTest, ALineIsOneObject) {
  EXPECT_THAT(
      ErrorOf({"[1, 2]"}),
      StartsWith("is not a JSON object but \"[1, 2]\"; write each row"));
  EXPECT_THAT(ErrorOf({"[1, 2]"}), HasSubstr("jq -c '.[]'"));
  for (const char* line : {"5", "null", "true", "\"x\""}) {
    EXPECT_THAT(ErrorOf({line}), StartsWith("is not a JSON object but "));
  }
  EXPECT_THAT(ErrorOf({"{"}), StartsWith("ends within its object; write each"));
  EXPECT_THAT(
      ErrorOf({R"({"x": 1, "y": "ab)"}),
      StartsWith("ends within its object, after key \"y\"; write each"));
  EXPECT_THAT(ErrorOf({R"({"x": 1} {"x": 2})"}),
              StartsWith("goes on after its object, at byte 10, \"{"));
}

TEST(JsonLineParserTest, NumbersFitADouble) {
  EXPECT_EQ(ErrorOf({R"({"x": [1e999]})"}),
            "key \"x\": 1e999 is outside the range of a number, -3.4e38 to "
            "3.4e38; scale the numbers, or take the key out of the file");
  JsonLineParser parser;
  EXPECT_TRUE(parser.Parse(R"({"x": 1e-999})").ok());
  EXPECT_EQ(parser.values()[0].number, 0);
}

TEST(JsonLineParserTest, TheTextIsUtf8WithoutBytesOfZero) {
  for (const char* text : {"\xFF", "caf\xE9", "\xC0\xAF", "\xED\xA0\x80"}) {
    EXPECT_EQ(ErrorOf({absl::StrCat("{\"x\": \"", text, "\"}")}),
              "is not UTF-8; save the file as UTF-8");
  }
  EXPECT_EQ(ErrorOf({"{\"x\": 1}\xFE"}),
            "is not UTF-8; save the file as UTF-8");
  EXPECT_THAT(ErrorOf({std::string("{\"x\": 1}\0 {", 11)}),
              StartsWith("holds a byte of 0 at 9; "));
  JsonLineParser parser;
  ASSERT_TRUE(parser.Parse(R"({"x": "a\u0000b"})").ok());
  EXPECT_EQ(parser.values()[0].text, std::string_view("a\0b", 3));
}

TEST(JsonLineParserTest, NumbersOfArraysAreBounded) {
  std::string line = R"({"a": [0], "b": [0)";
  for (size_t i = 2; i < kMaxJsonValues; ++i) line += ",0";
  JsonLineParser parser;
  EXPECT_TRUE(parser.Parse(line + "]}").ok());
  EXPECT_THAT(ErrorOf({line + ",0]}"}),
              StartsWith("key \"b\": the arrays of the line have more than "
                         "1048576 numbers, which is the limit; upload"));
}

}  // namespace
}  // namespace gpupool::engine
