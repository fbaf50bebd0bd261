#include "engine/model/lr_schedule.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "gpupool/v1/job.pb.h"

namespace gpupool::engine {
namespace {

using ::testing::HasSubstr;

double RateAt(const v1::LearningRateSchedule& schedule, double base,
              uint64_t step, uint64_t total_steps) {
  return LearningRateAt(schedule, base,
                        {.step = step, .total_steps = total_steps});
}

v1::LearningRateSchedule ScheduleFromText(const std::string& text) {
  v1::LearningRateSchedule schedule;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &schedule));
  return schedule;
}

TEST(LearningRateTest, WithoutARuleItIsConstant) {
  for (uint64_t step : {0, 5, 99}) {
    EXPECT_EQ(RateAt({}, 0.3, step, 100), 0.3);
  }
}

TEST(LearningRateTest, StepMultipliesEveryFewSteps) {
  v1::LearningRateSchedule schedule;
  schedule.mutable_step()->set_every_steps(10);
  EXPECT_EQ(RateAt(schedule, 1, 9, 100), 1);
  EXPECT_DOUBLE_EQ(RateAt(schedule, 1, 10, 100), 0.1);
  schedule.mutable_step()->set_gamma(0.5);
  EXPECT_DOUBLE_EQ(RateAt(schedule, 1, 25, 100), 0.25);
}

TEST(LearningRateTest, CosineReachesItsMinimumAfterTheLastStep) {
  v1::LearningRateSchedule schedule;
  schedule.mutable_cosine()->set_minimum(0.1);
  EXPECT_DOUBLE_EQ(RateAt(schedule, 1, 0, 100), 1);
  EXPECT_DOUBLE_EQ(RateAt(schedule, 1, 50, 100), 0.55);
  EXPECT_GT(RateAt(schedule, 1, 99, 100), 0.1);
  EXPECT_DOUBLE_EQ(RateAt(schedule, 1, 100, 100), 0.1);
  EXPECT_DOUBLE_EQ(RateAt(schedule, 1, 0, 1), 1);
}

TEST(LearningRateTest, WarmUpRisesLinearlyBeforeTheRule) {
  v1::LearningRateSchedule schedule;
  schedule.set_warmup_steps(4);
  schedule.mutable_cosine();
  EXPECT_DOUBLE_EQ(RateAt(schedule, 1, 0, 10), 0.25);
  EXPECT_DOUBLE_EQ(RateAt(schedule, 1, 3, 10), 1);
  // The cosine has the six steps that are left.
  EXPECT_DOUBLE_EQ(RateAt(schedule, 1, 4, 10), 1);
  EXPECT_DOUBLE_EQ(RateAt(schedule, 1, 7, 10), 0.5);
  EXPECT_DOUBLE_EQ(RateAt(schedule, 1, 8, 10), 0.25);
}

// The rates of torch.optim.lr_scheduler with base rate 0.4, one per step, as
// tests/conformance/pytorch/schedules.py prints them.
TEST(LearningRateTest, SchedulesAreThoseOfPytorch) {
  struct Case {
    const char* schedule;
    std::vector<double> rates;
    uint64_t total_steps = 20;
  };
  const Case cases[] = {
      {"step { every_steps: 3 gamma: 0.5 }",
       {0.4, 0.4, 0.4, 0.2, 0.2, 0.2, 0.1, 0.1}},
      {"multi_step { milestones: [2, 5] gamma: 0.3 }",
       {0.4, 0.4, 0.12, 0.12, 0.12, 0.036, 0.036, 0.036}},
      {"constant {}",
       {0.13333333333333333, 0.13333333333333333, 0.13333333333333333,
        0.13333333333333333, 0.13333333333333333, 0.4, 0.4, 0.4}},
      {"linear {}",
       {0.13333333333333333, 0.18666666666666668, 0.24000000000000002,
        0.2933333333333334, 0.34666666666666673, 0.4, 0.4, 0.4}},
      {"linear { start_factor: 0.5 end_factor: 0.25 steps: 4 }",
       {0.2, 0.175, 0.15, 0.125, 0.1, 0.1, 0.1, 0.1}},
      {"exponential { gamma: 0.9 }",
       {0.4, 0.36, 0.324, 0.2916, 0.26244, 0.236196, 0.2125764, 0.19131876}},
      {"cosine { minimum: 0.02 steps: 5 }",
       {0.4, 0.36371322893124003, 0.26871322893124, 0.15128677106875998,
        0.05628677106876, 0.02, 0.05628677106875998, 0.15128677106876}},
      {"cosine {}",
       {0.4, 0.38477590650225735, 0.3414213562373095, 0.276536686473018, 0.2,
        0.12346331352698206, 0.05857864376269051, 0.015224093497742654},
       8},
      {"cosine_restarts { first_steps: 2 growth: 2 minimum: 0.01 }",
       {0.4, 0.205, 0.4, 0.34288582233137677, 0.205, 0.06711417766862325, 0.4,
        0.38515650883970093, 0.34288582233137677, 0.2796232693111925, 0.205,
        0.1303767306888075}},
      {"cosine_restarts { first_steps: 3 }",
       {0.4, 0.3, 0.1, 0.4, 0.3, 0.1, 0.4, 0.3}},
      {"polynomial { steps: 6 power: 2 }",
       {0.4, 0.27777777777777785, 0.17777777777777787, 0.1, 0.04444444444444447,
        0.01111111111111111, 0, 0}},
      {"one_cycle { maximum: 0.8 }",
       {0.032, 0.33787289098778867, 0.768209139778094, 0.7837972542570413,
        0.7075805798149043, 0.5808696394380227, 0.42446616647007984,
        0.2640464231898359, 0.1259460102396063, 0.03283643456503269},
       11},
      {"cyclic { base: 0.1 maximum: 0.5 up_steps: 3 down_steps: 2 }",
       {0.1, 0.2333333333333333, 0.3666666666666666, 0.5, 0.3, 0.1,
        0.23333333333333348, 0.3666666666666666, 0.5, 0.3}},
  };
  for (const Case& c : cases) {
    const v1::LearningRateSchedule schedule = ScheduleFromText(c.schedule);
    EXPECT_TRUE(ValidateSchedule(schedule, 0.4, c.total_steps).ok());
    for (size_t i = 0; i < c.rates.size(); ++i) {
      EXPECT_NEAR(RateAt(schedule, 0.4, i, c.total_steps), c.rates[i], 1e-12)
          << c.schedule << " step " << i;
    }
  }
}

TEST(LearningRateTest, PolynomialReachesZeroBehindTheLastStep) {
  const auto schedule = ScheduleFromText("polynomial {}");
  EXPECT_DOUBLE_EQ(RateAt(schedule, 1, 0, 10), 1);
  EXPECT_DOUBLE_EQ(RateAt(schedule, 1, 9, 10), 0.1);
}

TEST(LearningRateTest, OneCycleEndsAtItsLowestRate) {
  const auto schedule = ScheduleFromText(
      "one_cycle { maximum: 1 initial_divisor: 10 "
      "final_divisor: 100 } warmup_steps: 5");
  EXPECT_NEAR(RateAt(schedule, 0.5, 24, 25), 0.001, 1e-12);
  EXPECT_NEAR(RateAt(schedule, 0.5, 5, 25), 0.1, 1e-12);
  // If the warm-up is shorter than a step, the rate starts at the top.
  const auto steep =
      ScheduleFromText("one_cycle { maximum: 1 warm_fraction: 0 }");
  EXPECT_DOUBLE_EQ(RateAt(steep, 0.5, 0, 10), 1);
  EXPECT_DOUBLE_EQ(RateAt(steep, 0.5, 0, 1), 1);
}

TEST(LearningRateTest, RestartsOfHugePeriodsDoNotOverflow) {
  const auto schedule = ScheduleFromText(
      "cosine_restarts { first_steps: 1 growth: 1000000000000 }");
  EXPECT_GE(RateAt(schedule, 1, uint64_t{1} << 63, ~uint64_t{0}), 0);
}

TEST(LearningRateTest, APlateauLowersTheRateWithEachReduction) {
  const auto schedule =
      ScheduleFromText("plateau { factor: 0.5 minimum: 0.06 }");
  for (const auto& [reductions, rate] :
       {std::pair(0u, 0.4), {1u, 0.2}, {2u, 0.1}, {3u, 0.06}, {9u, 0.06}}) {
    EXPECT_DOUBLE_EQ(
        LearningRateAt(
            schedule, 0.4,
            {.step = 7, .total_steps = 10, .reductions = reductions}),
        rate);
  }
}

TEST(LearningRateTest, RulesOutOfRangeAreNamed) {
  const std::pair<const char*, const char*> cases[] = {
      {"multi_step {}", "multi_step.milestones is empty"},
      {"multi_step { milestones: [5, 5] }", "5 stands behind 5"},
      {"constant { factor: 2 }", "constant.factor is 2"},
      {"linear { start_factor: 0 }", "linear.start_factor is 0"},
      {"linear { end_factor: 1.5 }", "linear.end_factor is 1.5"},
      {"linear { steps: 0 }", "linear.steps is 0"},
      {"exponential {}", "exponential.gamma is 0"},
      {"cosine_restarts {}", "cosine_restarts.first_steps is 0"},
      {"cosine_restarts { first_steps: 1 growth: 0 }", "growth is 0"},
      {"cosine_restarts { first_steps: 1 minimum: 3 }", "minimum is 3"},
      {"polynomial { power: -1 }", "polynomial.power is -1"},
      {"polynomial { steps: 0 }", "polynomial.steps is 0"},
      {"one_cycle {}", "one_cycle.maximum is 0"},
      {"one_cycle { maximum: 1 warm_fraction: 2 }", "warm_fraction is 2"},
      {"one_cycle { maximum: 1 final_divisor: 0 }", "final_divisor is 0"},
      {"plateau { factor: 1 }", "plateau.factor is 1"},
      {"plateau { threshold: nan }", "plateau.threshold is nan"},
      {"plateau { minimum: 2 }", "plateau.minimum is 2"},
      {"cyclic { base: 1 maximum: 0.5 up_steps: 1 }", "at least schedule"},
      {"cyclic { maximum: 1 }", "cyclic.up_steps is 0"},
  };
  for (const auto& [text, message] : cases) {
    const absl::Status status = ValidateSchedule(ScheduleFromText(text), 1, 10);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(status.message(), HasSubstr(message)) << text;
  }
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
