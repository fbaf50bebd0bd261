#include "engine/data/csv/columns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace gpupool::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::vector<std::string> kHeader = {"id", "color", "size", "kind"};

std::vector<int32_t> Places(const std::vector<ColumnPlan>& plans) {
  std::vector<int32_t> places;
  for (const ColumnPlan& plan : plans) places.push_back(plan.place);
  return places;
}

std::string PlanError(const CsvOptions& options, uint64_t width = 4) {
  return std::string(PlanColumns(options, kHeader, width).status().message());
}

TEST(PlanColumnsTest, ColumnsGoByNameOrElseByNumber) {
  const CsvOptions options = {.has_header = true,
                              .text_columns = {"color", "-2"},
                              .skipped_columns = {"0"},
                              .categories = {{"kind", {"a", "b"}}}};
  const auto plans = PlanColumns(options, kHeader, 4);
  ASSERT_TRUE(plans.ok()) << plans.status();
  EXPECT_THAT(Places(*plans),
              ElementsAre(kSkippedColumn, kFeatureColumn, kFeatureColumn, 0));
  EXPECT_TRUE((*plans)[1].text);
  EXPECT_TRUE((*plans)[2].text);
  EXPECT_TRUE((*plans)[3].text);
  EXPECT_THAT(*(*plans)[3].categories, ElementsAre("a", "b"));
  EXPECT_EQ((*plans)[1].name, "color");
}

TEST(PlanColumnsTest, LabelsByNameStandBeforeThoseByNumber) {
  const CsvOptions options = {
      .label_columns = {0}, .label_names = {"size"}, .has_header = true};
  EXPECT_EQ(LabelWidth(options), 2u);
  const auto plans = PlanColumns(options, kHeader, 4);
  ASSERT_TRUE(plans.ok()) << plans.status();
  EXPECT_THAT(Places(*plans),
              ElementsAre(1, kFeatureColumn, 0, kFeatureColumn));
}

TEST(PlanColumnsTest, ErrorsOfJsonLinesSpeakOfKeys) {
  EXPECT_THAT(PlanError({.label_names = {"x"}, .json_lines = true}),
              HasSubstr("has no column \"x\" for label_names; the keys of the "
                        "first object are: \"id\", \"color\""));
  EXPECT_THAT(PlanError({.json_lines = true}, 1),
              HasSubstr("at least one feature and one label, each a key, are"));
}

TEST(PlanColumnsTest, ANameThatIsANumberIsAName) {
  const auto plans = PlanColumns({.skipped_columns = {"1"}},
                                 std::vector<std::string>{"1", "x", "y"}, 3);
  ASSERT_TRUE(plans.ok()) << plans.status();
  EXPECT_EQ((*plans)[0].place, kSkippedColumn);
}

TEST(PlanColumnsTest, ColumnsWithoutAUsableNameHaveANumber) {
  const auto plans =
      PlanColumns({}, std::vector<std::string>{"", "\xE9", "c"}, 4);
  ASSERT_TRUE(plans.ok()) << plans.status();
  EXPECT_EQ((*plans)[0].name, "0");
  EXPECT_EQ((*plans)[1].name, "1");
  EXPECT_EQ((*plans)[2].name, "c");
  EXPECT_EQ((*plans)[3].name, "3");
}

TEST(PlanColumnsTest, WrongColumnsAreNamedWithTheirField) {
  EXPECT_THAT(PlanError({.text_columns = {"shade"}}),
              HasSubstr("has no column \"shade\" for text_columns; its header "
                        "has: \"id\", \"color\""));
  EXPECT_THAT(PlanError({.skipped_columns = {"4"}}),
              HasSubstr("column 4 of skipped_columns is outside -4 .. 3"));
  EXPECT_THAT(PlanError({.skipped_columns = {"kind"}}),
              HasSubstr("has its label in column 3, which skipped_columns"));
  EXPECT_THAT(PlanError({.skipped_columns = {"0", "1", "2"}}),
              HasSubstr("has 4 columns, 3 of them left out; at least one"));
  const auto unnamed = PlanColumns({.text_columns = {"x"}}, {}, 2);
  EXPECT_THAT(std::string(unnamed.status().message()),
              HasSubstr("without a header, columns go by number"));
}

TEST(PlanColumnsTest, NamesInErrorsAreCut) {
  const std::string name(250, 'x');
  const auto plans = PlanColumns({.text_columns = {"y"}},
                                 std::vector<std::string>{name, name}, 2);
  const std::string error(plans.status().message());
  EXPECT_THAT(error, HasSubstr("xxx...\""));
  EXPECT_LT(error.size(), 200u);
  EXPECT_LT(PlanError({.skipped_columns = {name}}).size(), 200u);
}

TEST(PlanColumnsTest, TheFirstOfTwoEqualNamesIsMeant) {
  const auto plans = PlanColumns({.skipped_columns = {"x"}},
                                 std::vector<std::string>{"a", "x", "x"}, 3);
  ASSERT_TRUE(plans.ok()) << plans.status();
  EXPECT_THAT(Places(*plans), ElementsAre(kFeatureColumn, kSkippedColumn, 0));
}

TEST(PlanColumnsTest, AWholeHeaderNamesEachColumn) {
  CsvOptions options = {.whole_header = true, .skipped_columns = {"id"}};
  EXPECT_EQ(PlanError(options, 4), "");
  EXPECT_THAT(PlanError(options, 5),
              HasSubstr("has 5 columns, but the header has 4 names"));
  EXPECT_THAT(PlanError(options, 3), HasSubstr("the header has 4 names"));
  options.skipped_columns = {"0"};
  EXPECT_EQ(PlanError(options, 5), "") << "columns go by number";
  options = {.skipped_columns = {"id"}};
  EXPECT_EQ(PlanError(options, 5), "") << "stored datasets stay readable";
}

TEST(PlanColumnsTest, TheNumberOfColumnsIsBounded) {
  EXPECT_TRUE(PlanColumns({}, {}, 1'048'576).ok());
  EXPECT_THAT(PlanError({}, 1'048'577),
              HasSubstr("has 1048577 columns, the limit is 1048576"));
}

}  // namespace
}  // namespace gpupool::engine
