#include "client/cli/output/svg_chart.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace gpupool::client {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(SvgAxisTest, RangesEndAtRoundNumbersAroundTheData) {
  const struct {
    double least, most, first, last;
  } cases[] = {
      {0.62, 0.98, 0.6, 1}, {-3, 12, -4, 12}, {1000, 1004, 1000, 1004}};
  for (const auto& c : cases) {
    const SvgAxis axis = RangeAxis(c.least, c.most, "x");
    EXPECT_NEAR(axis.first, c.first, 1e-9) << c.least;
    EXPECT_NEAR(axis.last, c.last, 1e-9) << c.most;
    EXPECT_GE(axis.ticks.size(), 3u);
    EXPECT_LE(axis.ticks.size(), 11u);
  }
}

TEST(SvgAxisTest, ASingleNumberHasARangeToo) {
  for (const double value : {0.0, 0.7, -5.0, 1e9}) {
    const SvgAxis axis = RangeAxis(value, value, "x");
    EXPECT_LT(axis.first, value);
    EXPECT_GT(axis.last, value);
    EXPECT_GT(axis.Share(value), 0.1);
    EXPECT_LT(axis.Share(value), 0.9);
  }
}

TEST(SvgAxisTest, NumbersThatDifferByRoundingHaveAFewTicks) {
  for (const double value : {0.1, -5.0, 1e18}) {
    const SvgAxis axis = RangeAxis(value, std::nextafter(value, 1e19), "x");
    EXPECT_LT(axis.first, value);
    EXPECT_GT(axis.last, value);
    EXPECT_LE(axis.ticks.size(), 12u);
  }
}

TEST(SvgAxisTest, LogarithmsCoverPowersOfTen) {
  const SvgAxis axis = LogarithmicAxis(0.003, 2, "loss");
  EXPECT_EQ(axis.first, -3);
  EXPECT_EQ(axis.last, 1);
  EXPECT_EQ(axis.ticks.front().label, "0.001");
}

TEST(SvgPictureTest, MarksPointsAndEscapesTexts) {
  const std::string svg =
      SvgPicture({"a<b", "c"}, {{"R&D",
                                 LinearAxis(10, "step"),
                                 LinearAxis(1, "loss"),
                                 {{{1, 0.5}, {2, 0.25}}, {{2, 1}}},
                                 {false, true}}});
  EXPECT_THAT(svg, HasSubstr("a&lt;b"));
  EXPECT_THAT(svg, HasSubstr("R&amp;D"));
  EXPECT_THAT(svg, HasSubstr("<circle class=\"l1\""));
  EXPECT_THAT(svg, Not(HasSubstr("<circle class=\"l0\"")));
}

TEST(SvgPictureTest, TextsHaveOnlyCharactersThatXmlAllows) {
  EXPECT_EQ(SvgText(absl::string_view("a\0\x1b<\tb", 6)), "a??&lt;\tb");
}

TEST(SvgPictureTest, LabelsStandBesideTheirPointsAndNotesBelow) {
  const auto draw = [](double x, double y) {
    return SvgPicture({"a"},
                      {{.title = "t",
                        .horizontal = LinearAxis(10, "x"),
                        .vertical = LinearAxis(10, "y"),
                        .lines = {{{0, 0}, {10, 10}}},
                        .labels = {{x, y, "here"}}}},
                      {.notes = {"first", "second"}, .dashed = {true}});
  };
  const std::string low = draw(0, 0);
  EXPECT_THAT(low, HasSubstr(".l0{stroke:#0072b2;stroke-dasharray:6 2}"));
  EXPECT_THAT(low, HasSubstr("<circle class=\"p\" cx=\"70.0\" cy=\"255.0\""));
  EXPECT_THAT(low,
              HasSubstr("x=\"70.0\" y=\"247.0\" text-anchor=\"start\">here"));
  // At the upper right the text stays inside.
  EXPECT_THAT(draw(10, 10),
              HasSubstr("x=\"740.0\" y=\"83.0\" text-anchor=\"end\">here"));
  EXPECT_THAT(low, HasSubstr("viewBox=\"0 0 760 344\""));
  EXPECT_THAT(low, HasSubstr("y=\"310.0\" text-anchor=\"start\">first"));
  EXPECT_THAT(low, HasSubstr("y=\"327.0\" text-anchor=\"start\">second"));
}

TEST(SvgByteUnitTest, IsTheLargestThatFits) {
  EXPECT_STREQ(ByteUnitFor(1000).name, "bytes");
  EXPECT_STREQ(ByteUnitFor(1024).name, "KiB");
  EXPECT_EQ(ByteUnitFor(uint64_t{3} << 20).Of(uint64_t{3} << 19), 1.5);
  EXPECT_STREQ(ByteUnitFor(uint64_t{1} << 45).name, "GiB");
}

TEST(SvgPictureTest, ALegendThatIsTooWideGoesOnInASecondRow) {
  // 50 + 8 * 30 = 290 for each name; two fit between 70 and 760.
  const std::string name(30, 'n');
  const std::string svg = SvgPicture({name, name, name}, {});
  EXPECT_THAT(svg, HasSubstr("class=\"l0\" d=\"M70.0 21h24\""));
  EXPECT_THAT(svg, HasSubstr("class=\"l1\" d=\"M360.0 21h24\""));
  EXPECT_THAT(svg, HasSubstr("class=\"l2\" d=\"M70.0 39h24\""));
}

}  // namespace
}  // namespace gpupool::client
