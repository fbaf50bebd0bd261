#include "engine/train/lr_schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "gpupool/v1/job.pb.h"

namespace gpupool::engine {
namespace {

using testing::HasSubstr;

TEST(LearningRateTest, DefaultsAreThoseOfTheOptimizer) {
  v1::TrainingSpec training;
  EXPECT_THAT(BaseLearningRate(training).status().message(),
              HasSubstr("no optimizer"));
  training.mutable_sgd();
  EXPECT_THAT(BaseLearningRate(training).status().message(),
              HasSubstr("sgd.learning_rate is missing"));
  training.mutable_sgd()->set_learning_rate(0.1);
  EXPECT_EQ(*BaseLearningRate(training), 0.1);
  training.mutable_adam();
  EXPECT_EQ(*BaseLearningRate(training), 1e-3);
  training.mutable_adamw()->set_learning_rate(0.5);
  EXPECT_EQ(*BaseLearningRate(training), 0.5);
}

TEST(LearningRateTest, RatesMustBeFiniteAndPositive) {
  for (double rate : {0.0, -1.0, HUGE_VAL, std::nan("")}) {
    v1::TrainingSpec training;
    training.mutable_adam()->set_learning_rate(rate);
    EXPECT_EQ(BaseLearningRate(training).status().code(),
              absl::StatusCode::kInvalidArgument)
        << rate;
  }
}

TEST(LearningRateTest, WithoutARuleItIsConstant) {
  for (uint64_t step : {0, 5, 99}) {
    EXPECT_EQ(LearningRateAt({}, 0.3, step, 100), 0.3);
  }
}

TEST(LearningRateTest, StepMultipliesEveryFewSteps) {
  v1::LearningRateSchedule schedule;
  schedule.mutable_step()->set_every_steps(10);
  EXPECT_EQ(LearningRateAt(schedule, 1, 9, 100), 1);
  EXPECT_DOUBLE_EQ(LearningRateAt(schedule, 1, 10, 100), 0.1);
  schedule.mutable_step()->set_gamma(0.5);
  EXPECT_DOUBLE_EQ(LearningRateAt(schedule, 1, 25, 100), 0.25);
}

TEST(LearningRateTest, CosineFallsToItsMinimumAtTheLastStep) {
  v1::LearningRateSchedule schedule;
  schedule.mutable_cosine()->set_minimum(0.1);
  EXPECT_DOUBLE_EQ(LearningRateAt(schedule, 1, 0, 101), 1);
  EXPECT_DOUBLE_EQ(LearningRateAt(schedule, 1, 50, 101), 0.55);
  EXPECT_DOUBLE_EQ(LearningRateAt(schedule, 1, 100, 101), 0.1);
}

TEST(LearningRateTest, WarmUpRisesLinearlyBeforeTheRule) {
  v1::LearningRateSchedule schedule;
  schedule.set_warmup_steps(4);
  schedule.mutable_cosine();
  EXPECT_DOUBLE_EQ(LearningRateAt(schedule, 1, 0, 10), 0.25);
  EXPECT_DOUBLE_EQ(LearningRateAt(schedule, 1, 3, 10), 1);
  EXPECT_DOUBLE_EQ(LearningRateAt(schedule, 1, 4, 10), 1);
  EXPECT_NEAR(LearningRateAt(schedule, 1, 9, 10), 0, 1e-15);
}

TEST(LearningRateTest, FieldsOutOfRangeAreNamed) {
  v1::LearningRateSchedule schedule;
  schedule.set_warmup_steps(10);
  EXPECT_THAT(ValidateSchedule(schedule, 1, 10).message(),
              HasSubstr("warmup_steps is 10"));
  EXPECT_TRUE(ValidateSchedule(schedule, 1, 11).ok());
  schedule.mutable_step();
  EXPECT_THAT(ValidateSchedule(schedule, 1, 11).message(),
              HasSubstr("every_steps"));
  schedule.mutable_step()->set_every_steps(1);
  schedule.mutable_step()->set_gamma(-1);
  EXPECT_THAT(ValidateSchedule(schedule, 1, 11).message(), HasSubstr("gamma"));
  schedule.mutable_cosine()->set_minimum(2);
  EXPECT_THAT(ValidateSchedule(schedule, 1, 11).message(),
              HasSubstr("minimum is 2"));
}

}  // namespace
}  // namespace gpupool::engine
