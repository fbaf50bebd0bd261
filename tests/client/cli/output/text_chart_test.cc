#include "client/cli/output/text_chart.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "client/cli/output/table.h"

namespace gpupool::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

Curve Line(double from, double to, int points = 11) {
  Curve curve;
  for (int i = 0; i < points; ++i) {
    const double t = points > 1 ? static_cast<double>(i) / (points - 1) : 0;
    curve.Add(i * 10, from + (to - from) * t);
  }
  return curve;
}

TEST(TextChartTest, DrawsALineAndMarksInAscii) {
  const Curve line = Line(5, 1);
  Curve marks;
  marks.Add(100, 2);
  EXPECT_THAT(TextChart({"loss", &line, {{"held out", &marks}}},
                        {.columns = 32, .rows = 5}),
              ElementsAre("loss  * training 1  o held out 2", "        5 |***",
                          "          |   ****", "          |       ******",
                          "          |             ****   o",
                          "        1 |                 ****",
                          "           0            step 100"));
}

TEST(TextChartTest, BrailleFitsTheWidthAndIsUtf8) {
  const Curve line = Line(5, 1, 500);
  for (int columns : {24, 40, 79, 200}) {
    const std::vector<std::string> lines = TextChart(
        {"loss", &line, {}}, {.columns = columns, .rows = 8, .braille = true});
    ASSERT_EQ(lines.size(), 10u);
    for (const std::string& text : lines) {
      EXPECT_LE(DisplayWidth(text), static_cast<size_t>(columns)) << text;
    }
    // The line starts at the top left: the two upper dots of the first cell are
    // U+2801 and more.
    EXPECT_THAT(lines[1], HasSubstr("│\xE2\xA0"));
  }
}

TEST(TextChartTest, ANarrowChartHasNoNumbersAtTheLeft) {
  const Curve line = Line(5, 1);
  EXPECT_THAT(TextChart({"loss", &line, {}}, {.columns = 11, .rows = 5}),
              ElementsAre("loss  * tr…", "**", "  **", "    ***", "       **",
                          "         **", "0  step 100"));
}

TEST(TextChartTest, NoLineIsWiderThanTheChart) {
  const Curve line = Line(5, 1, 500);
  Curve marks;
  marks.Add(5000, 2);
  for (const bool braille : {false, true}) {
    for (int columns = 1; columns <= 30; ++columns) {
      const std::vector<std::string> lines =
          TextChart({"loss", &line, {{"held out", &marks}}},
                    {.columns = columns, .rows = 4, .braille = braille});
      ASSERT_EQ(lines.size(), 6u);
      for (const std::string& text : lines) {
        EXPECT_LE(DisplayWidth(text), static_cast<size_t>(columns)) << text;
      }
    }
  }
}

TEST(TextChartTest, LossesOfManySizesHaveALogarithmicAxis) {
  Curve line;
  for (int i = 0; i <= 20; ++i) line.Add(i, std::pow(10, -i / 10.0));
  const auto lines = TextChart({"loss", &line, {}}, {.columns = 40, .rows = 3});
  EXPECT_THAT(lines[0], HasSubstr("(logarithmic)"));
  // Equal factors have equal heights, so the line is straight.
  EXPECT_THAT(lines[2], HasSubstr("|       ***"));
  const Curve plain = Line(5, 1);
  EXPECT_THAT(TextChart({"loss", &plain, {}}, {})[0],
              Not(HasSubstr("logarithmic")));
}

TEST(TextChartTest, OnePointHasOneNumberOnEachAxis) {
  const Curve one = Line(0.5, 0.5, 1);
  EXPECT_THAT(TextChart({"loss", &one, {}}, {.columns = 24, .rows = 7}),
              ElementsAre("loss  * training 0.5", "          |", "          |",
                          "          |", "      0.5 |*", "          |",
                          "          |", "          |", "           step 0"));
}

TEST(TextChartTest, ValuesThatPrintAlikeHaveOneNumber) {
  const Curve line = Line(0.5, 0.500001);
  const auto lines = TextChart({"loss", &line, {}}, {.columns = 40, .rows = 8});
  ASSERT_EQ(lines.size(), 10u);
  for (size_t row = 1; row <= 8; ++row) {
    EXPECT_THAT(lines[row],
                StartsWith(row == 4 ? "      0.5 |" : "          |"));
  }
}

TEST(TextChartTest, FewPointsAreNoTrouble) {
  const Curve none;
  EXPECT_THAT(TextChart({"loss", &none, {}}, {}), IsEmpty());
  const Curve one = Line(0.5, 0.5, 1);
  EXPECT_EQ(TextChart({"loss", &one, {}}, {.columns = 1, .rows = 0}).size(),
            4u);
  const Curve flat = Line(0, 0, 7);
  for (const bool braille : {false, true}) {
    EXPECT_EQ(
        TextChart({"loss", &flat, {}}, {.rows = 4, .braille = braille}).size(),
        6u);
  }
}

}  // namespace
}  // namespace gpupool::client
