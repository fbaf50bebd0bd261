#include "client/cli/output/job_curves.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/client/testing/fake_server.h"

namespace gpupool::client {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<double> StepsOf(const Curve& curve) {
  std::vector<double> steps;
  for (const CurvePoint& point : curve.points()) steps.push_back(point.step);
  return steps;
}

TEST(CurveTest, LeavesOutWhatIsNoNumber) {
  Curve curve;
  curve.Add(1, 0.5);
  curve.Add(2, std::numeric_limits<double>::quiet_NaN());
  curve.Add(3, std::numeric_limits<double>::infinity());
  EXPECT_THAT(StepsOf(curve), ElementsAre(1));
}

TEST(CurveTest, StepsThatAreMadeAgainReplaceTheFormerOnes) {
  Curve curve;
  for (int step = 1; step <= 5; ++step) curve.Add(step, 1);
  curve.Add(3, 2);
  EXPECT_THAT(StepsOf(curve), ElementsAre(1, 2, 3));
  EXPECT_EQ(curve.points().back().value, 2);
}

TEST(CurveTest, KeepsTheShapeOfALongCurve) {
  Curve curve;
  for (int step = 1; step <= 100000; ++step) curve.Add(step, 2.0 * step);
  ASSERT_LE(curve.points().size(), Curve::kMostPoints);
  EXPECT_GT(curve.points().size(), Curve::kMostPoints / 4);
  for (const CurvePoint& point : curve.points()) {
    ASSERT_DOUBLE_EQ(point.value, 2 * point.step);
  }
  EXPECT_EQ(curve.points().back().step, 100000);
}

TEST(JobCurvesTest, HasAChartForEachUnit) {
  JobCurves curves;
  EXPECT_THAT(curves.Charts(), IsEmpty());
  v1::JobEvent start;
  start.mutable_progress()->set_total_steps(100);
  curves.OnEvent(start);
  EXPECT_THAT(curves.Charts(), IsEmpty()) << "no step was made";
  curves.OnEvent(ProgressEvent(1, 5, 100));
  v1::JobEvent evaluated;
  evaluated.mutable_evaluation()->set_step(5);
  evaluated.mutable_evaluation()->set_loss(0.5);
  evaluated.mutable_evaluation()->set_accuracy(0.75);
  (*evaluated.mutable_evaluation()->mutable_metrics())["f1"] = 0.7;
  (*evaluated.mutable_evaluation()->mutable_metrics())["perplexity"] = 12;
  curves.OnEvent(evaluated);
  const std::vector<Chart> charts = curves.Charts();
  ASSERT_EQ(charts.size(), 3u);
  EXPECT_EQ(charts[0].title, "loss");
  EXPECT_THAT(StepsOf(*charts[0].line), ElementsAre(5));
  EXPECT_EQ(charts[0].marks[0].second->points()[0].value, 0.5);
  ASSERT_EQ(charts[1].marks.size(), 2u);
  EXPECT_EQ(charts[1].marks[0].first, "accuracy");
  EXPECT_EQ(charts[1].marks[1].first, "f1");
  EXPECT_EQ(charts[2].marks[0].first, "perplexity");
}

TEST(JobCurvesTest, LeavesOutMetricsThatWereNeverFinite) {
  JobCurves curves;
  v1::JobEvent evaluated;
  evaluated.mutable_evaluation()->set_step(5);
  evaluated.mutable_evaluation()->set_loss(100);
  evaluated.mutable_evaluation()->set_accuracy(0.75);
  auto& metrics = *evaluated.mutable_evaluation()->mutable_metrics();
  metrics["f1"] = std::numeric_limits<double>::quiet_NaN();
  metrics["perplexity"] = std::numeric_limits<double>::infinity();
  curves.OnEvent(evaluated);
  const std::vector<Chart> charts = curves.Charts();
  ASSERT_EQ(charts.size(), 2u);
  EXPECT_EQ(charts[0].title, "loss");
  ASSERT_EQ(charts[1].marks.size(), 1u);
  EXPECT_EQ(charts[1].marks[0].first, "accuracy");
}

TEST(JobCurvesTest, ALearningRateThatChangesHasAChart) {
  JobCurves curves;
  v1::JobEvent event = ProgressEvent(1, 5, 100);
  curves.OnEvent(event);
  EXPECT_EQ(curves.Charts().size(), 1u) << "the worker does not tell it";
  for (const uint64_t step : {6, 7}) {
    event = ProgressEvent(step, step, 100);
    event.mutable_progress()->set_learning_rate(0.5);
    curves.OnEvent(event);
  }
  EXPECT_EQ(curves.Charts().size(), 1u) << "it has not changed";
  event = ProgressEvent(8, 8, 100);
  event.mutable_progress()->set_learning_rate(0);
  curves.OnEvent(event);
  const std::vector<Chart> charts = curves.Charts();
  ASSERT_EQ(charts.size(), 2u);
  EXPECT_EQ(charts[1].title, "learning rate");
  EXPECT_EQ(charts[1].line_name, "rate");
  EXPECT_THAT(StepsOf(*charts[1].line), ElementsAre(6, 7, 8));
  EXPECT_EQ(charts[1].line->points().back().value, 0);
}

TEST(JobCurvesTest, AZeroIsAPoint) {
  JobCurves curves;
  v1::JobEvent evaluated;
  evaluated.mutable_evaluation()->set_step(5);
  evaluated.mutable_evaluation()->set_accuracy(0);
  curves.OnEvent(evaluated);
  const std::vector<Chart> charts = curves.Charts();
  ASSERT_EQ(charts.size(), 2u);
  EXPECT_EQ(charts[0].marks[0].second->points()[0].value, 0);
  ASSERT_EQ(charts[1].marks.size(), 1u) << "there is no top-k accuracy";
  EXPECT_EQ(charts[1].marks[0].first, "accuracy");
  EXPECT_EQ(charts[1].marks[0].second->points()[0].value, 0);
}

TEST(JobCurvesTest, PositiveValuesOfManySizesNeedALogarithmicAxis) {
  EXPECT_TRUE(NeedsLogarithmicAxis(0.1, 5));
  EXPECT_FALSE(NeedsLogarithmicAxis(0.1, 4));
  EXPECT_FALSE(NeedsLogarithmicAxis(0, 100));
}

}  // namespace
}  // namespace gpupool::client
