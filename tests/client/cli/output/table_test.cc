#include "client/cli/output/table.h"

#include <gtest/gtest.h>

#include <sstream>

namespace gpupool::client {
namespace {

Table SampleTable() {
  Table table({{"ID", Table::kRight}, {"NAME"}, {"STATE"}});
  table.AddRow({"7", "digits", "running"});
  table.AddRow({"12", "", "line\tend\n"});
  return table;
}

std::string Print(const Table& table, Stream stream, bool headers = true) {
  std::ostringstream out;
  stream.stream = &out;
  table.Print(stream, headers);
  return out.str();
}

TEST(TableTest, AlignsOnATerminal) {
  EXPECT_EQ(Print(SampleTable(), {.is_terminal = true}),
            "ID  NAME    STATE\n"
            " 7  digits  running\n"
            "12  -       line end \n");
}

TEST(TableTest, SeparatesByTabsWhenPiped) {
  EXPECT_EQ(Print(SampleTable(), {}),
            "ID\tNAME\tSTATE\n7\tdigits\trunning\n12\t-\tline end \n");
}

TEST(TableTest, LeavesTheHeaderOut) {
  Table table({{"A"}});
  table.AddRow({"x"});
  EXPECT_EQ(Print(table, {}, false), "x\n");
  EXPECT_EQ(Print(table, {.is_terminal = true}, false), "x\n");
}

TEST(TableTest, PaintsTheHeaderOnlyWithColor) {
  Table table({{"A"}});
  EXPECT_EQ(Print(table, {.is_terminal = true, .color = true}),
            "\x1b[1mA\x1b[0m\n");
}

TEST(TableTest, CutsLinesAtTheTerminalsWidth) {
  Table table({{"A"}});
  table.AddRow({std::string(50, 'x')});
  EXPECT_EQ(Print(table, {.is_terminal = true, .width = 30}, false),
            std::string(29, 'x') + "…\n");
}

TEST(TableTest, FillsMissingCells) {
  Table table({{"A"}, {"B"}});
  table.AddRow({"x"});
  EXPECT_EQ(Print(table, {}, false), "x\t-\n");
}

TEST(DisplayWidthTest, CountsCodePoints) {
  EXPECT_EQ(DisplayWidth("abc"), 3u);
  EXPECT_EQ(DisplayWidth("Zürich…"), 7u);
}

TEST(FitTest, CutsBetweenCodePoints) {
  EXPECT_EQ(Fit("abc", 3), "abc");
  EXPECT_EQ(Fit("abcd", 3), "ab…");
  EXPECT_EQ(Fit("üüüü", 3), "üü…");
  EXPECT_EQ(Fit("abc", 0), "");
}

}  // namespace
}  // namespace gpupool::client
