#include "engine/data/json/keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace gpupool::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kObject =
    R"({"id": "a", "pixels": [1, 2, 3], "size": 4, "target": [5, 6]})";

absl::StatusOr<JsonColumns> Plan(CsvOptions options,
                                 const std::string& line = kObject) {
  options.has_header = true;
  options.json_lines = true;
  JsonLineParser parser;
  EXPECT_TRUE(parser.Parse(line).ok()) << line;
  return PlanJsonColumns(options, parser.keys(), parser.values());
}

std::string PlanRefusal(const CsvOptions& options,
                        const std::string& line = kObject) {
  return std::string(Plan(options, line).status().message());
}

std::vector<int32_t> PlacesOf(const JsonColumns& columns) {
  std::vector<int32_t> places;
  for (const ColumnPlan& plan : columns.plans) places.push_back(plan.place);
  return places;
}

TEST(PlanJsonColumnsTest, AnArrayHasAColumnForEachNumber) {
  const auto columns = Plan({});
  ASSERT_TRUE(columns.ok()) << columns.status();
  std::vector<std::string> names;
  for (const ColumnPlan& plan : columns->plans) names.push_back(plan.name);
  EXPECT_THAT(names, ElementsAre("id", "pixels[0]", "pixels[1]", "pixels[2]",
                                 "size", "target[0]", "target[1]"));
  EXPECT_THAT(PlacesOf(*columns), ElementsAre(-1, -1, -1, -1, -1, 0, 1));
  EXPECT_EQ(columns->label_width, 2u);
  ASSERT_EQ(columns->keys.size(), 4u);
  EXPECT_FALSE(columns->keys[0].array);
  EXPECT_TRUE(columns->keys[1].array);
  EXPECT_EQ(columns->keys[1].first, 1u);
  EXPECT_EQ(columns->keys[1].count, 3u);
  EXPECT_EQ(columns->keys[2].first, 4u);
}

TEST(PlanJsonColumnsTest, AColumnHasAKey) {
  const auto columns = Plan({});
  ASSERT_TRUE(columns.ok()) << columns.status();
  std::vector<size_t> keys;
  for (size_t i = 0; i < columns->plans.size(); ++i) {
    keys.push_back(KeyOfColumn(*columns, i));
  }
  EXPECT_THAT(keys, ElementsAre(0, 1, 1, 1, 2, 3, 3));
}

TEST(PlanJsonColumnsTest, LabelsHaveTheOrderOfTheOptions) {
  const auto one = Plan({.label_names = {"size", "target"}});
  ASSERT_TRUE(one.ok()) << one.status();
  EXPECT_THAT(PlacesOf(*one), ElementsAre(-1, -1, -1, -1, 0, 1, 2));
  EXPECT_EQ(one->label_width, 3u);
  const auto other = Plan({.label_columns = {-1, 2}});
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_THAT(PlacesOf(*other), ElementsAre(-1, -1, -1, -1, 2, 0, 1));
}

TEST(PlanJsonColumnsTest, OptionsMeanKeys) {
  const CsvOptions options = {.label_column = 2,
                              .text_columns = {"size"},
                              .skipped_columns = {"pixels", "-1"},
                              .categories = {{"id", {"a", "b"}}}};
  const auto columns = Plan(options);
  ASSERT_TRUE(columns.ok()) << columns.status();
  EXPECT_THAT(PlacesOf(*columns),
              ElementsAre(kFeatureColumn, kSkippedColumn, 0, kSkippedColumn));
  EXPECT_TRUE(columns->plans[0].text);
  EXPECT_TRUE(columns->plans[2].text);
  EXPECT_THAT(PlanRefusal({.label_names = {"d"}}),
              HasSubstr("has no column \"d\" for label_names; the keys of the "
                        "first object are: \"id\", \"pixels\", \"size\""));
  EXPECT_THAT(PlanRefusal({.label_column = 5}),
              HasSubstr("label_column 5 is outside -4 .. 3"));
}

TEST(PlanJsonColumnsTest, ArraysHoldNumbersAndAtLeastOne) {
  EXPECT_THAT(PlanRefusal({}, R"({"x": [], "y": 1})"),
              HasSubstr("key \"x\": the array is empty; give it at least one"));
  EXPECT_TRUE(
      Plan({.skipped_columns = {"x"}}, R"({"x": [], "z": 0, "y": 1})").ok());
  EXPECT_THAT(PlanRefusal({.text_columns = {"pixels"}}),
              HasSubstr("key \"pixels\": text_columns or categories (gpupool: "
                        "--text-columns, --like) name it"));
}

TEST(PlanJsonColumnsTest, TheNamesOfAllColumnsAreBounded) {
  constexpr size_t kNumbers = 300'000;
  std::string array = "[0";
  for (size_t i = 1; i < kNumbers; ++i) array += ",0";
  const auto line = [&](size_t key_bytes) {
    return absl::StrCat("{\"", std::string(key_bytes, 'k'), "\": ", array,
                        "], \"y\": 1}");
  };
  const size_t most = kMaxJsonNameBytes / kNumbers;
  const auto columns = Plan({}, line(most));
  ASSERT_TRUE(columns.ok()) << columns.status();
  EXPECT_EQ(columns->plans.size(), kNumbers + 1);
  EXPECT_THAT(PlanRefusal({}, line(most + 1)),
              HasSubstr("have more than 67108864 bytes; give the key a"));
}

TEST(PlanJsonColumnsTest, AFeatureAndALabelAreNeeded) {
  EXPECT_THAT(PlanRefusal({}, R"({"x": [1, 2]})"),
              HasSubstr("has one column; at least one feature and one label, "
                        "each a key, are needed"));
}

}  // namespace
}  // namespace gpupool::engine
