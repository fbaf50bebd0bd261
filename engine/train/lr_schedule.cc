#include "engine/train/lr_schedule.h"

#include <cmath>
#include <numbers>

#include "absl/strings/str_cat.h"
#include "gpupool/v1/job.pb.h"

namespace gpupool::engine {
namespace {

constexpr double kDefaultAdamRate = 1e-3;
constexpr double kDefaultGamma = 0.1;

double Gamma(const v1::LearningRateSchedule::Step& rule) {
  return rule.gamma() == 0 ? kDefaultGamma : rule.gamma();
}

template <typename AdamLike>
double AdamRate(const AdamLike& adam) {
  return adam.has_learning_rate() ? adam.learning_rate() : kDefaultAdamRate;
}

double CosineAt(double minimum, double base, uint64_t step, uint64_t steps) {
  if (steps <= 1) return minimum;
  const double progress =
      static_cast<double>(step) / static_cast<double>(steps - 1);
  return minimum +
         (base - minimum) * (1 + std::cos(std::numbers::pi * progress)) / 2;
}

}  // namespace

absl::StatusOr<double> BaseLearningRate(const v1::TrainingSpec& training) {
  double rate = 0;
  switch (training.optimizer_case()) {
    case v1::TrainingSpec::kSgd:
      rate = training.sgd().learning_rate();
      if (rate == 0) {
        return absl::InvalidArgumentError(
            "training.sgd.learning_rate is missing; SGD has no good default, "
            "0.1 to 0.01 is common");
      }
      break;
    case v1::TrainingSpec::kAdam:
      rate = AdamRate(training.adam());
      break;
    case v1::TrainingSpec::kAdamw:
      rate = AdamRate(training.adamw());
      break;
    default:
      return absl::InvalidArgumentError(
          "training has no optimizer; set sgd, adam or adamw");
  }
  if (!std::isfinite(rate) || rate <= 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the learning rate is ", rate, "; it must be finite and above 0"));
  }
  return rate;
}

absl::Status ValidateSchedule(const v1::LearningRateSchedule& schedule,
                              double base, uint64_t total_steps) {
  if (schedule.warmup_steps() >= total_steps) {
    return absl::InvalidArgumentError(absl::StrCat(
        "schedule.warmup_steps is ", schedule.warmup_steps(),
        "; it must be below the ", total_steps, " steps of the job"));
  }
  if (schedule.has_step()) {
    const double gamma = schedule.step().gamma();
    if (schedule.step().every_steps() == 0) {
      return absl::InvalidArgumentError(
          "schedule.step.every_steps is 0; it must be at least 1");
    }
    if (!std::isfinite(gamma) || gamma < 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "schedule.step.gamma is ", gamma, "; it must be finite and above 0"));
    }
  }
  if (schedule.has_cosine()) {
    const double minimum = schedule.cosine().minimum();
    if (!(minimum >= 0 && minimum <= base)) {
      return absl::InvalidArgumentError(
          absl::StrCat("schedule.cosine.minimum is ", minimum,
                       "; it must be from 0 to the learning rate ", base));
    }
  }
  return absl::OkStatus();
}

double LearningRateAt(const v1::LearningRateSchedule& schedule, double base,
                      uint64_t step, uint64_t total_steps) {
  const uint64_t warmup = schedule.warmup_steps();
  if (step < warmup) {
    return base * static_cast<double>(step + 1) / static_cast<double>(warmup);
  }
  const uint64_t after = step - warmup;
  switch (schedule.rule_case()) {
    case v1::LearningRateSchedule::kStep:
      return base * std::pow(Gamma(schedule.step()),
                             static_cast<double>(
                                 after / schedule.step().every_steps()));
    case v1::LearningRateSchedule::kCosine:
      return CosineAt(schedule.cosine().minimum(), base, after,
                      total_steps - warmup);
    default:
      break;
  }
  return base;
}

}  // namespace gpupool::engine
