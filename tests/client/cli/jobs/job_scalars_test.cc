#include "client/cli/jobs/job_scalars.h"

#include <gmock/gmock.h>

#include <cmath>

#include "tests/client/testing/fake_server.h"

namespace gpupool::client {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

v1::JobEvent StepOf(uint32_t attempt, uint64_t step) {
  v1::JobEvent event = ProgressEvent(1, step, 100);
  event.set_attempt(attempt);
  return event;
}

v1::JobEvent EvaluationOf(uint32_t attempt, uint64_t step, double accuracy) {
  v1::JobEvent event;
  event.set_attempt(attempt);
  event.mutable_evaluation()->set_step(step);
  event.mutable_evaluation()->set_loss(0.5);
  event.mutable_evaluation()->set_accuracy(accuracy);
  return event;
}

TEST(JobScalarsTest, ProgressHasALossAnEpochAndASpeed) {
  v1::JobEvent event = StepOf(1, 20);
  event.mutable_time()->set_seconds(30);
  event.mutable_time()->set_nanos(500000000);
  event.mutable_progress()->set_epoch(2);
  JobScalars scalars;
  const auto taken = scalars.Take(event);
  ASSERT_TRUE(taken.has_value());
  EXPECT_EQ(taken->time, absl::UnixEpoch() + absl::Milliseconds(30500));
  EXPECT_EQ(taken->step, 20u);
  EXPECT_FALSE(taken->rewinds);
  EXPECT_THAT(
      taken->values,
      ElementsAre(Pair("loss/training", 0.25), Pair("progress/epoch", 2),
                  Pair("speed/samples_per_second", 31200)));
}

TEST(JobScalarsTest, ALearningRateHasACurveIfItIsTold) {
  v1::JobEvent event = StepOf(1, 20);
  JobScalars scalars;
  scalars.Take(event);
  EXPECT_EQ(scalars.curves().count("progress/learning_rate"), 0u);
  event.mutable_progress()->set_learning_rate(0);
  EXPECT_THAT(scalars.Take(event)->values.back(),
              Pair("progress/learning_rate", 0));
}

TEST(JobScalarsTest, ALossThatIsNoNumberIsKept) {
  v1::JobEvent event = StepOf(1, 1);
  event.mutable_progress()->set_loss(std::nan(""));
  JobScalars scalars;
  EXPECT_TRUE(std::isnan(scalars.Take(event)->values.front().second));
}

TEST(JobScalarsTest, LossScalingHasCurvesWhereThereIsSome) {
  v1::JobEvent event = StepOf(1, 1);
  event.mutable_progress()->clear_samples_per_second();
  event.mutable_progress()->set_loss_scale(1024);
  JobScalars scalars;
  EXPECT_THAT(
      scalars.Take(event)->values,
      ElementsAre(Pair("loss/training", 0.25), Pair("progress/epoch", 0),
                  Pair("fp16/loss_scale", 1024),
                  Pair("fp16/skipped_steps", 0)));
}

TEST(JobScalarsTest, EvaluationsHaveTheirMetricsInOrder) {
  v1::JobEvent event = EvaluationOf(1, 40, 0.75);
  (*event.mutable_evaluation()->mutable_metrics())["recall"] = 0.5;
  (*event.mutable_evaluation()->mutable_metrics())["auc"] = 0.25;
  JobScalars scalars;
  EXPECT_THAT(
      scalars.Take(event)->values,
      ElementsAre(Pair("loss/held_out", 0.5), Pair("held_out/accuracy", 0.75),
                  Pair("held_out/auc", 0.25), Pair("held_out/recall", 0.5)));
  EXPECT_EQ(scalars.count(), 4u);
  EXPECT_EQ(scalars.curves().size(), 4u);
}

TEST(JobScalarsTest, AZeroIsANumber) {
  v1::JobEvent event = EvaluationOf(1, 1, 0);
  JobScalars scalars;
  EXPECT_THAT(
      scalars.Take(event)->values,
      ElementsAre(Pair("loss/held_out", 0.5), Pair("held_out/accuracy", 0)));
  event.mutable_evaluation()->clear_accuracy();
  event.mutable_evaluation()->set_top_k_accuracy(0);
  EXPECT_THAT(scalars.Take(event)->values,
              ElementsAre(Pair("loss/held_out", 0.5),
                          Pair("held_out/top_k_accuracy", 0)));
}

TEST(JobScalarsTest, OtherEventsHaveNoNumbers) {
  JobScalars scalars;
  EXPECT_FALSE(scalars.Take(StateEvent(1, v1::RUNNING)).has_value());
  EXPECT_FALSE(scalars.Take(LogEvent(2, "text")).has_value());
  EXPECT_FALSE(scalars.Take(StepOf(1, 0)).has_value());
  EXPECT_EQ(scalars.count(), 0u);
}

TEST(JobScalarsTest, AnAttemptThatMakesStepsAgainRewindsOnce) {
  JobScalars scalars;
  const auto rewinds = [&](const v1::JobEvent& event) {
    return scalars.Take(event)->rewinds;
  };
  EXPECT_FALSE(rewinds(StepOf(1, 20)));
  EXPECT_FALSE(rewinds(StepOf(1, 40)));
  EXPECT_FALSE(rewinds(EvaluationOf(1, 40, 0.5))) << "the same attempt";
  EXPECT_TRUE(rewinds(EvaluationOf(2, 30, 0.5)));
  EXPECT_FALSE(rewinds(StepOf(2, 40)));
  EXPECT_FALSE(rewinds(StepOf(3, 60))) << "goes on where the last one was";
  EXPECT_TRUE(rewinds(StepOf(4, 60)));
}

}  // namespace
}  // namespace gpupool::client
