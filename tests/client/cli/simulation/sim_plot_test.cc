#include "client/cli/simulation/sim_plot.h"

#include <gmock/gmock.h>

#include "tests/client/testing/count_of.h"

namespace gpupool::client {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

SimResult PlottedResult(const std::string& policy, int jobs) {
  SimResult result{.policy = policy, .summary = {}, .replay = {}};
  for (int i = 1; i <= jobs; ++i) {
    result.replay.jobs.push_back({.completion = absl::Seconds(10.0 * i)});
    result.replay.samples.push_back(
        {.at = absl::Minutes(i),
         .busy_devices = static_cast<uint32_t>(i % 5),
         .queued_jobs = static_cast<uint32_t>(i % 7)});
  }
  return result;
}

TEST(SimPlotTest, HasALineOfEachPolicyInEachPanelAndInTheLegend) {
  const std::string svg =
      SimPlot({PlottedResult("las", 50), PlottedResult("srs", 900)}, 4);
  EXPECT_THAT(svg, ::testing::StartsWith("<svg xmlns="));
  EXPECT_THAT(svg, ::testing::EndsWith("</svg>\n"));
  EXPECT_EQ(CountOf(svg, "class=\"l0\""), 4u);
  EXPECT_EQ(CountOf(svg, "class=\"l1\""), 4u);
  for (const char* text :
       {">las<", ">srs<", "Jobs that have ended", "Devices at work",
        "Jobs that wait", ">days<", "seconds from submission to end"}) {
    EXPECT_THAT(svg, HasSubstr(text));
  }
}

TEST(SimPlotTest, NoNumberIsMissingWhateverTheResult) {
  for (int jobs : {0, 1, 2, 5000}) {
    const std::string svg = SimPlot({PlottedResult("las", jobs)}, 1);
    EXPECT_THAT(svg, Not(HasSubstr("nan"))) << jobs;
    EXPECT_THAT(svg, Not(HasSubstr("inf"))) << jobs;
    EXPECT_LT(svg.size(), 25000u) << jobs;
  }
}

TEST(SimPlotTest, AxesReachBeyondTheData) {
  const std::string svg = SimPlot({PlottedResult("las", 900)}, 4);
  EXPECT_THAT(svg, HasSubstr(">10000</text>")) << "of at most 9000 seconds";
  EXPECT_THAT(svg, Not(HasSubstr(">100000</text>")));
}

}  // namespace
}  // namespace gpupool::client
