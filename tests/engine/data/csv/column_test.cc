#include "engine/data/csv/column.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "engine/base/category_limits.h"

namespace gpupool::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A column that has its own options.
class Fed {
 public:
  explicit Fed(CsvOptions options = {}, ColumnPlan plan = {.name = "c"})
      : options_(std::move(options)),
        plan_(std::move(plan)),
        column_(plan_, options_, &name_bytes_) {}

  CsvColumn& operator*() { return column_; }
  CsvColumn* operator->() { return &column_; }

  float Number(std::string_view cell) {
    const auto number = column_.Take(cell);
    EXPECT_TRUE(number.ok()) << cell << ": " << number.status();
    return number.ok() ? *number : -1;
  }
  std::string Error(std::string_view cell) {
    return std::string(column_.Take(cell).status().message());
  }

 private:
  const CsvOptions options_;
  const ColumnPlan plan_;
  size_t name_bytes_ = 0;
  CsvColumn column_;
};

TEST(CsvColumnTest, TheFirstCellDecidesTheKind) {
  Fed numbers;
  EXPECT_EQ(numbers.Number("1.5"), 1.5f);
  EXPECT_EQ(*numbers->TakeNumber("2"), 2.0f);
  EXPECT_FALSE(numbers->TakeNumber("red").has_value());
  EXPECT_THAT(numbers.Error("red"),
              HasSubstr("\"red\" is not a finite number, as the cells before"));
  EXPECT_THAT(numbers.Error("red"), HasSubstr("--text-columns"));
  Fed text({.has_header = true});
  EXPECT_EQ(text.Number("red"), 0);
  EXPECT_FALSE(text->TakeNumber("7").has_value());
  EXPECT_EQ(text.Number("7"), 1);
  EXPECT_EQ(text.Number("red"), 0);
  const CsvColumnFacts facts = text->TakeFacts();
  EXPECT_TRUE(facts.text);
  EXPECT_THAT(facts.categories, ElementsAre("red", "7"));
  EXPECT_THAT(facts.category_rows, ElementsAre(2, 1));
}

TEST(CsvColumnTest, BrokenNumbersAreNoText) {
  for (const char* cell : {"inf", "-inf", "1e39", "1e400", "1,234", "12%"}) {
    EXPECT_THAT(Fed().Error(cell), HasSubstr("is not a finite number; write"))
        << cell;
  }
  Fed declared({}, {.name = "c", .text = true});
  EXPECT_EQ(declared.Number("1,234"), 0);
  EXPECT_EQ(declared.Number("inf"), 1);
}

TEST(CsvColumnTest, FactsAreThoseOfTheNumbers) {
  Fed fed({.missing = MissingRule::kZero});
  for (const char* cell : {"4", "-2", "NA", "1"}) {
    if (!fed->TakeNumber(cell)) fed.Number(cell);
    fed->Show(cell);
  }
  const CsvColumnFacts facts = fed->TakeFacts();
  EXPECT_FALSE(facts.text);
  EXPECT_EQ(facts.minimum, -2);
  EXPECT_EQ(facts.maximum, 4);
  EXPECT_EQ(facts.sum, 3);
  EXPECT_EQ(facts.numbers, 3u);
  EXPECT_EQ(facts.missing, 1u);
  EXPECT_THAT(facts.first_values, ElementsAre("4", "-2", "NA"));
}

TEST(CsvColumnTest, ASurveyFindsWhatMissingCellsBecome) {
  Fed mean({.missing = MissingRule::kMean});
  for (const char* cell : {"", "2", "5"}) mean.Number(cell);
  ASSERT_TRUE(mean->EndSurvey().ok());
  EXPECT_EQ(mean.Number("?"), 3.5f);
  EXPECT_EQ(mean.Number("5"), 5.0f);
  EXPECT_EQ(mean->TakeFacts().numbers, 2u) << "nothing is counted twice";
  Fed zero({.missing = MissingRule::kZero});
  for (const char* cell : {"", "2"}) zero.Number(cell);
  ASSERT_TRUE(zero->EndSurvey().ok());
  EXPECT_EQ(zero.Number(""), 0.0f);
  Fed text({.has_header = true, .missing = MissingRule::kMean});
  for (const char* cell : {"", "red", "NA", "blue"}) text.Number(cell);
  ASSERT_TRUE(text->EndSurvey().ok());
  EXPECT_EQ(text.Number("red"), 0);
  EXPECT_EQ(text.Number("n/a"), 2);
  const CsvColumnFacts facts = text->TakeFacts();
  EXPECT_THAT(facts.categories, ElementsAre("red", "blue", ""));
  EXPECT_THAT(facts.category_rows, ElementsAre(1, 1, 2));
  Fed nothing({.missing = MissingRule::kZero});
  nothing.Number("");
  EXPECT_THAT(std::string(nothing->EndSurvey().message()),
              HasSubstr("no row has a value; leave the column out"));
}

TEST(CsvColumnTest, MissingCellsAreRefusedByDefaultAndInLabels) {
  EXPECT_EQ(
      Fed().Error(""),
      "the cell is empty; correct it, or set missing to MEAN, ZERO or DROP_ROW "
      "(gpupool: --missing mean|zero|drop-row)");
  EXPECT_THAT(Fed().Error("NaN"), HasSubstr("is missing (\"NaN\"); correct"));
  Fed label({.missing = MissingRule::kMean}, {.name = "y", .place = 0});
  EXPECT_THAT(label.Error(""), HasSubstr("labels are not filled in; correct "
                                         "it, or set missing to DROP_ROW"));
}

TEST(CsvColumnTest, OnlyTextOfFeaturesIsOneHot) {
  const CsvOptions options = {.has_header = true, .text = TextRule::kOneHot};
  Fed feature(options), label(options, {.name = "y", .place = 0}),
      number(options);
  feature.Number("a");
  feature.Number("b");
  label.Number("a");
  number.Number("1");
  EXPECT_TRUE(feature->one_hot());
  EXPECT_EQ(feature->width(), 2u);
  EXPECT_FALSE(label->one_hot());
  EXPECT_EQ(label->width(), 1u);
  EXPECT_FALSE(number->one_hot());
}

TEST(CsvColumnTest, CategoriesAreBounded) {
  Fed fed({.has_header = true}, {.name = "c", .text = true});
  for (size_t i = 0; i < kMaxCategories; ++i) {
    ASSERT_EQ(fed.Number(std::to_string(i)), i);
  }
  EXPECT_THAT(fed.Error("one more"),
              HasSubstr("\"one more\" would be category 10001 of the column, "
                        "the limit is 10000; leave the column out"));
  EXPECT_EQ(fed.Number("7"), 7) << "known categories still pass";
  Fed text({.has_header = true});
  EXPECT_EQ(text.Number(std::string(256, 'x')), 0);
  EXPECT_THAT(text.Error(std::string(257, 'x')),
              HasSubstr("has 257 bytes, the limit of a category is 256"));
  EXPECT_THAT(text.Error("caf\xE9"), HasSubstr("is not UTF-8"));
}

TEST(CsvColumnTest, NamesOfAllColumnsHaveOneLimit) {
  const CsvOptions options = {.has_header = true};
  const ColumnPlan plan = {.name = "c"};
  size_t bytes = kMaxCategoryNames - 3;
  CsvColumn one(plan, options, &bytes), other(plan, options, &bytes);
  EXPECT_TRUE(one.Take("abc").ok());
  EXPECT_TRUE(one.Take("abc").ok());
  EXPECT_THAT(std::string(other.Take("d").status().message()),
              HasSubstr("have 1048577 bytes with \"d\", the limit is 1048576"));
}

TEST(CsvColumnTest, GivenCategoriesAreTheOnlyOnes) {
  const std::vector<std::string> categories = {"b", "a"};
  Fed fed({}, {.name = "c", .text = true, .categories = &categories});
  EXPECT_EQ(fed.Number("a"), 1);
  EXPECT_EQ(fed.Number("b"), 0);
  EXPECT_EQ(fed.Error("c"),
            "\"c\" is not among the 2 categories that layout.categories gives "
            "(gpupool: --like): \"b\", \"a\"");
  EXPECT_THAT(fed->TakeFacts().category_rows, ElementsAre(1, 1));
  Fed filled({.missing = MissingRule::kZero},
             {.name = "c", .text = true, .categories = &categories});
  EXPECT_THAT(filled.Error(""), HasSubstr("a missing cell is not among the 2"));
}

TEST(CsvColumnTest, TypedNumbersAndStringsDoNotMix) {
  Fed numbers({.has_header = true});
  EXPECT_FALSE(numbers->TakeNumber(1.0).has_value()) << "it may become text";
  EXPECT_EQ(*numbers->TakeTyped(1.5, "1.50"), 1.5F);
  EXPECT_EQ(*numbers->TakeNumber(2.0), 2.0F);
  EXPECT_FALSE(numbers->TakeNumber(1e39).has_value());
  EXPECT_THAT(std::string(numbers->TakeTyped(1e39, "1e39").status().message()),
              HasSubstr("1e39 is outside the range of a 32-bit float"));
  EXPECT_THAT(std::string(numbers->TakeString("7").status().message()),
              HasSubstr("\"7\" is a string, but the values before it are"));
  Fed text({.has_header = true});
  EXPECT_EQ(*text->TakeString("NA"), 0);
  EXPECT_EQ(*text->TakeString("7"), 1);
  EXPECT_THAT(std::string(text->TakeTyped(7, "7").status().message()),
              HasSubstr("7 is a number, but the values before it are strings"));
  Fed declared({.has_header = true}, {.name = "c", .text = true});
  EXPECT_EQ(*declared->TakeTyped(7, "7"), 0);
  EXPECT_EQ(*declared->TakeString("7"), 0);
  EXPECT_EQ(*declared->TakeTyped(1.5, "1.50"), 1);
  EXPECT_THAT(declared->TakeFacts().categories, ElementsAre("7", "1.50"));
}

TEST(CsvColumnTest, TypedValuesAreMissingAsCellsAre) {
  const auto null = [] { return std::string("the value is null"); };
  Fed refuses;
  EXPECT_EQ(std::string(refuses->TakeMissing(null).status().message()),
            "the value is null; correct it, or set missing to MEAN, ZERO or "
            "DROP_ROW (gpupool: --missing mean|zero|drop-row)");
  Fed mean({.missing = MissingRule::kMean});
  EXPECT_TRUE(mean->shows());
  EXPECT_EQ(*mean->TakeMissing(null), 0);
  EXPECT_EQ(*mean->TakeTyped(4, "4"), 4);
  ASSERT_TRUE(mean->EndSurvey().ok());
  EXPECT_FALSE(mean->shows());
  EXPECT_EQ(*mean->TakeMissing(null), 4);
}

TEST(CsvColumnTest, ANumberBelowTheFirstLinesTextAsksForAHeader) {
  Fed fed;
  EXPECT_EQ(fed.Number("size"), 0);
  EXPECT_THAT(fed.Error("1.5"),
              HasSubstr("\"1.5\" is a number below the text \"size\"; if the "
                        "first line holds column names, set has_header"));
  Fed words;
  words.Number("red");
  EXPECT_EQ(words.Number("blue"), 1);
  EXPECT_EQ(words.Number("7"), 2) << "only the second line is compared";
}

}  // namespace
}  // namespace gpupool::engine
