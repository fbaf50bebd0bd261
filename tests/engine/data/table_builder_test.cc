#include "engine/data/table_builder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/engine/data/columns.h"
#include "tests/engine/scratch_folder.h"

namespace gpupool::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

using Row = std::vector<std::string>;

ColumnPlan Feature(std::string name) { return {.name = std::move(name)}; }
ColumnPlan Label(std::string name, int32_t place = 0) {
  return {.name = std::move(name), .place = place};
}

// Adds a row of CSV cells, one for each column.
absl::Status AddCells(TableBuilder& builder, const Row& cells) {
  builder.BeginRow();
  for (size_t i = 0; i < cells.size(); ++i) {
    if (builder.skipped(i)) continue;
    const absl::StatusOr<float> number = builder.column(i).Take(cells[i]);
    if (!number.ok()) return number.status();
    builder.Add(i, *number);
  }
  return builder.EndRow();
}

void AddPass(TableBuilder& builder, const std::vector<Row>& rows) {
  builder.BeginPass();
  for (const Row& row : rows) ASSERT_TRUE(AddCells(builder, row).ok());
}

std::string PlaceOf(size_t column) { return absl::StrCat("place ", column); }

TEST(TableBuilderTest, LabelsGoToTheirPlacesAndSkippedColumnsAway) {
  TableBuilder builder({}, {});
  EXPECT_FALSE(builder.surveying());
  EXPECT_EQ(builder.columns(), 0u);
  builder.SetColumns({Label("b", 1),
                      Feature("x"),
                      {.name = "id", .place = kSkippedColumn},
                      Label("a", 0),
                      Feature("y")},
                     2);
  EXPECT_EQ(builder.columns(), 5u);
  EXPECT_TRUE(builder.skipped(2));
  AddPass(builder, {{"1", "2", "?", "3", "4"}, {"5", "6", "", "7", "8"}});
  const auto table = builder.Finish();
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(table->rows, 2u);
  EXPECT_THAT(table->features().shape, ElementsAre(2));
  EXPECT_THAT(Floats(table->features()), ElementsAre(2, 4, 6, 8));
  EXPECT_THAT(table->labels().shape, ElementsAre(2));
  EXPECT_THAT(Floats(table->labels()), ElementsAre(3, 1, 7, 5));
  ASSERT_EQ(table->csv_columns.size(), 4u);
  EXPECT_EQ(table->csv_columns[0].first_number, 1u);
  EXPECT_EQ(table->csv_columns[3].name, "y");
  EXPECT_EQ(table->csv_columns[3].first_number, 1u);
}

TEST(TableBuilderTest, ASurveyFindsMeansAndCategories) {
  const std::vector<Row> rows = {
      {"1", "red", "0"}, {"", "blue", "1"}, {"3", "red", "0"}};
  TableBuilder builder({.has_header = true,
                        .missing = MissingRule::kMean,
                        .text = TextRule::kOneHot},
                       {});
  EXPECT_TRUE(builder.surveying());
  builder.SetColumns({Feature("x"), Feature("color"), Label("y")}, 1);
  AddPass(builder, rows);
  ASSERT_TRUE(builder.EndSurvey(&PlaceOf).ok());
  EXPECT_FALSE(builder.surveying());
  AddPass(builder, rows);
  const auto table = builder.Finish();
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_THAT(Floats(table->features()),
              ElementsAre(1, 1, 0, 2, 0, 1, 3, 1, 0));
  EXPECT_THAT(table->labels().shape, IsEmpty());
}

TEST(TableBuilderTest, ASurveyNamesThePlaceOfAColumnWithoutAValue) {
  TableBuilder builder({.missing = MissingRule::kZero}, {});
  builder.SetColumns({Feature("x"), Feature("z"), Label("y")}, 1);
  AddPass(builder, {{"1", "", "0"}});
  EXPECT_THAT(std::string(builder.EndSurvey(&PlaceOf).message()),
              StartsWith("place 1: no row has a value"));
}

TEST(TableBuilderTest, CountsRowsThatAreLeftOut) {
  TableBuilder builder({.missing = MissingRule::kDropRow}, {});
  builder.SetColumns({Feature("x"), Label("y")}, 1);
  builder.BeginPass();
  builder.DropRow();
  EXPECT_EQ(builder.Finish().status().message(),
            "holds no row; 1 row with missing cells were left out");
}

TEST(TableBuilderTest, ColumnsOfTextAreBounded) {
  constexpr size_t kTexts = 10'001;
  TableBuilder builder({.has_header = true}, {});
  std::vector<ColumnPlan> plans(kTexts, Feature("t"));
  plans.push_back(Label("y"));
  builder.SetColumns(std::move(plans), 1);
  builder.BeginPass();
  Row row(kTexts, "word");
  row.emplace_back("0");
  const absl::Status status = AddCells(builder, row);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              StartsWith("has 10001 columns of text, the limit is 10000"));
}

TEST(TableBuilderTest, StopsAtTheByteLimitAndUsesTheDisk) {
  const ScratchFolder folder;
  TableBuilder small({}, {.max_table_bytes = 12});
  small.SetColumns({Feature("x"), Label("y")}, 1);
  small.BeginPass();
  EXPECT_TRUE(AddCells(small, {"1", "2"}).ok());
  EXPECT_EQ(AddCells(small, {"1", "2"}).code(),
            absl::StatusCode::kResourceExhausted);
  TableBuilder mapped({}, {.memory_bytes = 12, .unpack_dir = folder.path()});
  mapped.SetColumns({Feature("x"), Label("y")}, 1);
  AddPass(mapped, {{"1", "2"}, {"3", "4"}});
  const auto table = mapped.Finish();
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(table->host_bytes(), 0u);
  EXPECT_THAT(Floats(table->features()), ElementsAre(1, 3));
}

TEST(TableBuilderTest, ASurveyOfJsonLinesStopsAtTheByteLimit) {
  for (const bool json_lines : {false, true}) {
    TableBuilder builder({.has_header = true,
                          .json_lines = json_lines,
                          .missing = MissingRule::kZero},
                         {.max_table_bytes = 16});
    builder.SetColumns(
        {Feature("x"), {.name = "id", .place = kSkippedColumn}, Label("y")}, 1);
    AddPass(builder, {{"1", "?", "2"}, {"", "?", "4"}});
    EXPECT_EQ(AddCells(builder, {"5", "?", "6"}).ok(), !json_lines);
    EXPECT_EQ(builder.EndSurvey(&PlaceOf).ok(), json_lines);
  }
}

TEST(TableBuilderTest, CategoriesMakeNoRowsWithoutLimit) {
  // 27 columns of 10,000 categories are more than 262,144 numbers. The names
  // are short, because those of all columns together are bounded, too.
  constexpr size_t kWide = 27;
  TableBuilder builder({.has_header = true, .text = TextRule::kOneHot}, {});
  std::vector<ColumnPlan> plans(kWide, ColumnPlan{.name = "t", .text = true});
  plans.push_back(Label("y"));
  builder.SetColumns(std::move(plans), 1);
  builder.BeginPass();
  for (int i = 0; i < 10'000; ++i) {
    Row row(kWide, absl::StrCat(absl::Hex(i)));
    row.emplace_back("0");
    ASSERT_TRUE(AddCells(builder, row).ok()) << i;
  }
  EXPECT_THAT(std::string(builder.EndSurvey(&PlaceOf).message()),
              HasSubstr("the limit is 262144"));
}

}  // namespace
}  // namespace gpupool::engine
