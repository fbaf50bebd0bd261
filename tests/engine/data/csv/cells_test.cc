#include "engine/data/csv/cells.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace gpupool::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> CellsOf(std::string_view record) {
  CellSplitter splitter;
  const auto cells = splitter.Split(record);
  EXPECT_TRUE(cells.ok()) << cells.status();
  if (!cells.ok()) return {};
  return {cells->begin(), cells->end()};
}

std::string SplitError(std::string_view record) {
  CellSplitter splitter;
  return std::string(splitter.Split(record).status().message());
}

TEST(CellSplitterTest, CommasEndCells) {
  EXPECT_THAT(CellsOf("1,2"), ElementsAre("1", "2"));
  EXPECT_THAT(CellsOf(" a b ,\tc"), ElementsAre("a b", "c"));
  EXPECT_THAT(CellsOf(",x,"), ElementsAre("", "x", ""));
  EXPECT_THAT(CellsOf(""), ElementsAre(""));
}

TEST(CellSplitterTest, QuotesHoldCommasQuotesAndLineEnds) {
  EXPECT_THAT(CellsOf("\"a, b\",2"), ElementsAre("a, b", "2"));
  EXPECT_THAT(CellsOf("1, \" say \"\"hi\"\" \" ,3"),
              ElementsAre("1", "say \"hi\"", "3"));
  EXPECT_THAT(CellsOf("\"a\nb\",\"\""), ElementsAre("a\nb", ""));
  EXPECT_THAT(CellsOf("\"\"\"\""), ElementsAre("\""));
  EXPECT_THAT(CellsOf("\"x\","), ElementsAre("x", ""));
  EXPECT_THAT(CellsOf("\"\"\"a\"\"\",\"\"\"b\"\"\""),
              ElementsAre("\"a\"", "\"b\""));
}

TEST(CellSplitterTest, AQuoteWithinACellIsAnOrdinaryCharacter) {
  EXPECT_THAT(CellsOf("5\" pipe,x"), ElementsAre("5\" pipe", "x"));
}

TEST(CellSplitterTest, WrongQuotesAreRefused) {
  EXPECT_THAT(SplitError("1,\"a\"b,2"),
              HasSubstr("column 2: \"b,2\" follows a closing quote"));
  EXPECT_THAT(SplitError("1,\"a"),
              HasSubstr("column 2: a quote is not closed"));
}

TEST(CellSplitterTest, TheNumberOfCellsIsBounded) {
  const std::string commas(kMaxCsvColumns - 1, ',');
  EXPECT_EQ(CellsOf(commas).size(), kMaxCsvColumns);
  EXPECT_THAT(SplitError(commas + ","),
              HasSubstr("has more than 1048576 columns"));
  EXPECT_THAT(SplitError("\"a\"," + commas),
              HasSubstr("has more than 1048576 columns"));
  EXPECT_THAT(SplitError(commas + ",\"a\""),
              HasSubstr("has more than 1048576 columns"));
}

TEST(QuoteScanTest, KnowsWhetherARecordGoesOn) {
  const auto open = [](const std::vector<std::string>& parts) {
    QuoteScan scan;
    for (const std::string& part : parts) scan.Add(part);
    return scan.open();
  };
  EXPECT_FALSE(open({"1,2\n"}));
  EXPECT_TRUE(open({"1, \"a\n"}));
  EXPECT_FALSE(open({"1,\"a\n", "b\"\n"}));
  EXPECT_TRUE(open({"1,\"a\"", "\"\n"})) << "a doubled quote in two parts";
  EXPECT_FALSE(open({"5\" pipe,x\n"})) << "no quote opens within a cell";
  EXPECT_FALSE(open({"\"a\" \"b\n"})) << "nor after a closing quote";
}

TEST(CellsTest, SomeTextsStandForMissingValues) {
  for (const char* cell :
       {"", "NA", "na", "N/A", "#N/A", "<NA>", "NaN", "nan", "NULL", "?"}) {
    EXPECT_TRUE(IsMissing(cell)) << cell;
  }
  for (const char* cell : {"0", "none", "-", "nato", "nulls", "inf", "??"}) {
    EXPECT_FALSE(IsMissing(cell)) << cell;
  }
}

TEST(CellsTest, QuotedCellsAreCutAndEscaped) {
  EXPECT_EQ(QuotedCell(std::string(41, 'z')),
            "\"" + std::string(40, 'z') + "...\"");
  EXPECT_EQ(QuotedCell("\xE9"), "\"\\xe9\"");
  EXPECT_EQ(QuotedCell("\xC3\xA9"), "\"\xC3\xA9\"");
}

TEST(CellsTest, OfManyCellsTheFirstAreQuoted) {
  const std::vector<std::string> cells = {"a", "b", "c"};
  EXPECT_EQ(QuotedCells(cells, 3), "\"a\", \"b\", \"c\"");
  EXPECT_EQ(QuotedCells(cells, 2), "\"a\", \"b\", ...");
  EXPECT_EQ(QuotedCells(std::vector<std::string>(), 2), "");
}

}  // namespace
}  // namespace gpupool::engine
