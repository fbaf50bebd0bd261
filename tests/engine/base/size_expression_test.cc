#include "engine/base/size_expression.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

namespace gpupool::engine {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

int64_t Value(const std::string& text, std::vector<int64_t> sizes = {}) {
  const auto expression = SizeExpression::Parse(text);
  EXPECT_TRUE(expression.ok()) << expression.status();
  const auto value = expression->Value(sizes);
  EXPECT_TRUE(value.ok()) << value.status();
  return value.value_or(-1234567);
}

std::string Error(const std::string& text) {
  const auto expression = SizeExpression::Parse(text);
  EXPECT_EQ(expression.status().code(), absl::StatusCode::kInvalidArgument)
      << text;
  return std::string(expression.status().message());
}

TEST(SizeExpressionTest, ProductsComeBeforeSumsAndParenthesesBeforeBoth) {
  EXPECT_EQ(Value("2 + 3 * 4"), 14);
  EXPECT_EQ(Value("(2 + 3) * 4"), 20);
  EXPECT_EQ(Value("20 - 3 - 4"), 13);
  EXPECT_EQ(Value("20 - (3 - 4)"), 21);
  EXPECT_EQ(Value("100 // 7 // 2"), 7);
  EXPECT_EQ(Value("2 * 7 // 4"), 3);
  EXPECT_EQ(Value("-2 + 5"), 3);
  EXPECT_EQ(Value("5 - -2 * 3"), 11);
}

TEST(SizeExpressionTest, NamesStandForTheSizesInTheOrderOfTheText) {
  const auto total = SizeExpression::Parse("past + sequence+past");
  ASSERT_TRUE(total.ok()) << total.status();
  EXPECT_THAT(total->names(), ElementsAre("past", "sequence"));
  EXPECT_EQ(*total->Value({10, 3}), 23);
  EXPECT_TRUE(total->Uses("past"));
  EXPECT_FALSE(total->Uses("pas"));
  EXPECT_EQ(total->text(), "past + sequence+past");
  EXPECT_EQ(Value(" _a.b0//2 ", {9}), 4);
}

TEST(SizeExpressionTest, QuotientsAreRoundedDown) {
  EXPECT_EQ(Value("7 // 2"), 3);
  EXPECT_EQ(Value("-7 // 2"), -4);
  EXPECT_EQ(Value("7 // -2"), -4);
  EXPECT_EQ(Value("-8 // -2"), 4);
  EXPECT_EQ(Value("0 // 5"), 0);
}

TEST(SizeExpressionTest, NumbersBeyond63BitsAreRefused) {
  EXPECT_EQ(Value("9223372036854775807"), INT64_MAX);
  EXPECT_THAT(Error("9223372036854775808"), HasSubstr("63 bits"));
  for (const char* text :
       {"9223372036854775807 + a", "a * 9223372036854775807 * 2",
        "-9223372036854775807 - 1 - a", "(-9223372036854775807 - 1) // -a"}) {
    const auto value = SizeExpression::Parse(text)->Value({1});
    EXPECT_THAT(std::string(value.status().message()),
                AllOf(HasSubstr("63 bits"), HasSubstr(text)));
  }
  EXPECT_THAT(
      std::string(
          SizeExpression::Parse("8 // a")->Value({0}).status().message()),
      HasSubstr("divides by 0"));
}

TEST(SizeExpressionTest, ErrorsQuoteTheTextAndThePlace) {
  EXPECT_THAT(Error("past +"),
              AllOf(HasSubstr("'past +'"), HasSubstr("character 7")));
  EXPECT_THAT(Error("(past + 1"), HasSubstr("')'"));
  EXPECT_THAT(Error("past sequence"),
              AllOf(HasSubstr("operator"), HasSubstr("character 6")));
  EXPECT_THAT(Error("past / 2"), HasSubstr("second '/'"));
  EXPECT_THAT(Error("s0**2"), HasSubstr("character 4"));
  EXPECT_THAT(Error("Max(1, s0)"), HasSubstr("character 4"));
  for (const char* text :
       {"", " ", "+", "1 +* 2", "2x", ")", "a.b c", "\x80"}) {
    Error(text);
  }
}

TEST(SizeExpressionTest, LengthAndDepthAreBounded) {
  const std::string longest(kMaxSizeExpressionBytes, 'a');
  EXPECT_TRUE(SizeExpression::Parse(longest).ok());
  EXPECT_THAT(Error(longest + "a"), HasSubstr("256"));
  const std::string open(kMaxSizeExpressionDepth, '(');
  const std::string close(kMaxSizeExpressionDepth, ')');
  EXPECT_EQ(Value(open + "3" + close), 3);
  EXPECT_THAT(Error("(" + open + "3" + close + ")"), HasSubstr("deeper"));
  EXPECT_EQ(Value(std::string(kMaxSizeExpressionDepth, '-') + "3"), 3);
  EXPECT_THAT(Error(std::string(kMaxSizeExpressionDepth + 1, '-') + "3"),
              HasSubstr("deeper"));
}

TEST(SizeExpressionTest, BoundsHoldAllValuesOfTheRanges) {
  const auto bounds = [](const char* text, std::vector<SizeRange> ranges) {
    const auto range = SizeExpression::Parse(text)->Bounds(ranges);
    EXPECT_TRUE(range.ok()) << range.status();
    return std::vector<int64_t>{range->first, range->last};
  };
  EXPECT_THAT(bounds("a + b", {{0, 64}, {1, 8}}), ElementsAre(1, 72));
  EXPECT_THAT(bounds("a - b", {{0, 64}, {1, 8}}), ElementsAre(-8, 63));
  EXPECT_THAT(bounds("a * (64 - a)", {{0, 64}}), ElementsAre(0, 4096));
  EXPECT_THAT(bounds("a // b", {{7, 64}, {2, 8}}), ElementsAre(0, 32));
  EXPECT_THAT(bounds("(0 - a) // b", {{7, 64}, {2, 8}}), ElementsAre(-32, -1));
  EXPECT_THAT(std::string(SizeExpression::Parse("8 // a")
                              ->Bounds(std::vector<SizeRange>{{0, 4}})
                              .status()
                              .message()),
              HasSubstr("divides by 0"));
}

TEST(SizeExpressionTest, KnownSizesBecomeNumbers) {
  const auto some = SizeExpression::Parse("heads * past + heads2 + head")
                        ->With({{"heads", 12}, {"head", 7}});
  EXPECT_EQ(some.text(), "12 * past + heads2 + 7");
  EXPECT_THAT(some.names(), ElementsAre("past", "heads2"));
  EXPECT_EQ(*some.Value({2, 100}), 131);
  EXPECT_EQ(some, *SizeExpression::Parse(some.text()));
  const auto all = SizeExpression::Parse("a + 1")->With({{"a", 0}});
  EXPECT_THAT(all.names(), IsEmpty());
  EXPECT_EQ(*all.Value({}), 1);
}

TEST(SizeExpressionTest, TellsNamesAndSumsThatEndInAName) {
  EXPECT_TRUE(SizeExpression::Parse("past")->IsName());
  EXPECT_FALSE(SizeExpression::Parse("7")->IsName());
  EXPECT_FALSE(SizeExpression::Parse("past + 1")->IsName());
  const auto ends = [](const char* text) {
    return SizeExpression::Parse(text)->EndsWith("b");
  };
  EXPECT_TRUE(ends("b"));
  EXPECT_TRUE(ends("a + b"));
  EXPECT_TRUE(ends("2 * a + (b)"));
  EXPECT_FALSE(ends("b + a"));
  EXPECT_FALSE(ends("a - b"));
  EXPECT_FALSE(ends("a + 2 * b"));
  EXPECT_FALSE(ends("b + b"));
  EXPECT_FALSE(ends("a"));
}

}  // namespace
}  // namespace gpupool::engine
