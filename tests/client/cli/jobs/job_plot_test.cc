#include "client/cli/jobs/job_plot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "client/cli/output/table.h"
#include "tests/client/testing/count_of.h"
#include "tests/client/testing/fake_server.h"

namespace gpupool::client {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

JobCurves Curves() {
  JobCurves curves;
  for (uint64_t step = 1; step <= 100; ++step) {
    v1::JobEvent event = ProgressEvent(step, step, 100);
    event.mutable_progress()->set_loss(2.0 / static_cast<double>(step));
    curves.OnEvent(event);
  }
  v1::JobEvent evaluated;
  evaluated.mutable_evaluation()->set_step(100);
  evaluated.mutable_evaluation()->set_loss(0.05);
  evaluated.mutable_evaluation()->set_accuracy(0.9);
  curves.OnEvent(evaluated);
  return curves;
}

TEST(JobPlotTest, FollowsTheSizeOfATerminal) {
  for (const int width : {2, 10, 24, 40, 80, 300}) {
    const Stream terminal{.is_terminal = true, .width = width};
    const auto lines = PlotLines(Curves(), terminal, 40);
    EXPECT_EQ(lines.size(), 2u * (12 + 2));
    for (const std::string& line : lines) {
      EXPECT_LT(DisplayWidth(line), static_cast<size_t>(width)) << line;
    }
  }
  const Stream terminal{.is_terminal = true, .width = 80};
  EXPECT_EQ(PlotLines(Curves(), terminal, 20).size(), 20u);
  // There is room for one chart only.
  const auto one = PlotLines(Curves(), terminal, 9);
  EXPECT_EQ(one.size(), 9u);
  EXPECT_THAT(one[0], StartsWith("loss"));
  EXPECT_THAT(PlotLines(Curves(), terminal, 3), IsEmpty());
}

TEST(JobPlotTest, IsAsciiInAFile) {
  for (const std::string& line : PlotLines(Curves(), {}, 0)) {
    for (const char c : line) EXPECT_GE(c, ' ') << line;
  }
}

TEST(JobPlotTest, ThePictureHasEveryCurve) {
  const std::string svg = PlotPicture(Curves(), "job 7 (digits)");
  for (const char* text :
       {"steps of job 7 (digits)", ">training<", ">held out<", ">accuracy<",
        "<circle class=\"l1\"", "<circle class=\"l2\""}) {
    EXPECT_THAT(svg, HasSubstr(text));
  }
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  EXPECT_THAT(PlotPicture({}, "job 7"), StartsWith("<svg"));
}

TEST(JobPlotTest, TheLearningRateIsALineWithItsOwnName) {
  JobCurves curves;
  for (uint64_t step = 1; step <= 4; ++step) {
    v1::JobEvent event = ProgressEvent(step, step, 4);
    event.mutable_progress()->set_learning_rate(static_cast<double>(step));
    curves.OnEvent(event);
  }
  const std::string svg = PlotPicture(curves, "job 7");
  for (const char* text : {">training<", ">rate<", ">learning rate</text>"}) {
    EXPECT_THAT(svg, HasSubstr(text));
  }
  const auto lines = PlotLines(curves, {}, 0);
  EXPECT_EQ(std::count(lines.begin(), lines.end(), "learning rate  * rate 4"),
            1);
}

TEST(JobPlotTest, LossesOfSeveralJobsAreLinesOfOneChart) {
  Curve first, second, never_finite;
  for (int step = 1; step <= 4; ++step) {
    first.Add(step, 1.0 / step);
    second.Add(step, 1.5 / step);
  }
  const std::string svg = LossPicture(
      {{"float32", &first}, {"float16", &never_finite}, {"tf32", &second}},
      "steps of digits");
  for (const char* text :
       {">float32<", ">tf32<", "steps of digits", ">loss</text>"}) {
    EXPECT_THAT(svg, HasSubstr(text));
  }
  EXPECT_THAT(svg, Not(HasSubstr("float16")));
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  // Each line is once in the legend and once in the chart.
  EXPECT_EQ(CountOf(svg, "<path class=\"l0\""), 2u);
  EXPECT_EQ(CountOf(svg, "<path class=\"l1\""), 2u);
  EXPECT_EQ(CountOf(svg, "<path class=\"l2\""), 0u);
  // Points of losses are not marked: there are too many.
  EXPECT_EQ(CountOf(svg, "<circle"), 0u);
}

TEST(JobPlotTest, APictureWithoutLossesIsEmptyButWellFormed) {
  const Curve empty;
  const std::string svg = LossPicture({{"float32", &empty}}, "steps");
  EXPECT_THAT(svg, StartsWith("<svg"));
  EXPECT_THAT(svg, HasSubstr("</svg>"));
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
}

}  // namespace
}  // namespace gpupool::client
