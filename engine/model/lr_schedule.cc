#include "engine/model/lr_schedule.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "absl/strings/str_cat.h"
#include "engine/base/job_limits.h"
#include "engine/base/status_macros.h"
#include "gpupool/v1/job.pb.h"

namespace gpupool::engine {
namespace {

using Schedule = v1::LearningRateSchedule;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The functions below return fields of the rules, or PyTorch's defaults.
double Gamma(double gamma) { return gamma == 0 ? 0.1 : gamma; }
double FactorOf(const Schedule::Constant& rule) {
  return rule.has_factor() ? rule.factor() : 1.0 / 3;
}
uint64_t StepsOf(const Schedule::Constant& rule) {
  return rule.has_steps() ? rule.steps() : 5;
}
double StartOf(const Schedule::Linear& rule) {
  return rule.has_start_factor() ? rule.start_factor() : 1.0 / 3;
}
double EndOf(const Schedule::Linear& rule) {
  return rule.has_end_factor() ? rule.end_factor() : 1;
}
uint64_t StepsOf(const Schedule::Linear& rule) {
  return rule.has_steps() ? rule.steps() : 5;
}
uint64_t GrowthOf(const Schedule::CosineRestarts& rule) {
  return rule.has_growth() ? rule.growth() : 1;
}
double WarmFractionOf(const Schedule::OneCycle& rule) {
  return rule.has_warm_fraction() ? rule.warm_fraction() : 0.3;
}
double InitialDivisorOf(const Schedule::OneCycle& rule) {
  return rule.has_initial_divisor() ? rule.initial_divisor() : 25;
}
double FinalDivisorOf(const Schedule::OneCycle& rule) {
  return rule.has_final_divisor() ? rule.final_divisor() : 1e4;
}
double FactorOf(const Schedule::Plateau& rule) {
  return rule.has_factor() ? rule.factor() : 0.1;
}

double Ratio(uint64_t part, uint64_t whole) {
  return static_cast<double>(part) / static_cast<double>(whole);
}

// Returns a point on half a period of a cosine: `from` at progress 0, `to` at
// 1.
double Cosine(double from, double to, double progress) {
  return to + (from - to) * (1 + std::cos(std::numbers::pi * progress)) / 2;
}

// Each At returns the rate by its rule, with the formula of lr_schedule.h.
double At(const Schedule::Cosine& rule, double base, uint64_t e, uint64_t n) {
  const uint64_t steps = rule.steps() > 0 ? rule.steps() : n;
  return Cosine(base, rule.minimum(), Ratio(e, steps));
}

double At(const Schedule::MultiStep& rule, double base, uint64_t e) {
  const auto passed =
      std::count_if(rule.milestones().begin(), rule.milestones().end(),
                    [e](uint64_t milestone) { return milestone <= e; });
  return base * std::pow(Gamma(rule.gamma()), static_cast<double>(passed));
}

double At(const Schedule::Linear& rule, double base, uint64_t e) {
  const double done = Ratio(std::min(e, StepsOf(rule)), StepsOf(rule));
  return base * (StartOf(rule) + (EndOf(rule) - StartOf(rule)) * done);
}

double At(const Schedule::CosineRestarts& rule, double base, uint64_t e) {
  uint64_t period = rule.first_steps();
  const uint64_t growth = GrowthOf(rule);
  if (growth == 1) {
    // All periods are equal, and the loop below could take very long.
    e %= period;
  } else {
    while (e >= period) {
      e -= period;
      // Stops before the period overflows; no job has that many steps.
      if (period > std::numeric_limits<uint64_t>::max() / growth) break;
      period *= growth;
    }
  }
  return Cosine(base, rule.minimum(), Ratio(e, period));
}

double At(const Schedule::Polynomial& rule, double base, uint64_t e,
          uint64_t n) {
  const uint64_t steps = rule.has_steps() ? rule.steps() : n;
  return base * std::pow(1 - Ratio(std::min(e, steps), steps),
                         rule.has_power() ? rule.power() : 1);
}

double At(const Schedule::OneCycle& rule, uint64_t e, uint64_t n) {
  const double initial = rule.maximum() / InitialDivisorOf(rule);
  // As in PyTorch's OneCycleLR, whose phases end one step before their share.
  const double top = WarmFractionOf(rule) * static_cast<double>(n) - 1;
  const auto end = static_cast<double>(n - 1);
  const auto at = static_cast<double>(e);
  if (at <= top && top > 0) return Cosine(initial, rule.maximum(), at / top);
  const double begin = std::max(top, 0.0);
  if (end <= begin) return rule.maximum();
  return Cosine(rule.maximum(), initial / FinalDivisorOf(rule),
                (at - begin) / (end - begin));
}

double At(const Schedule::Cyclic& rule, uint64_t e) {
  const uint64_t up = rule.up_steps();
  const uint64_t down = rule.down_steps() > 0 ? rule.down_steps() : up;
  const uint64_t within = e % (up + down);
  const double height =
      within <= up ? Ratio(within, up) : 1 - Ratio(within - up, down);
  return rule.base() + (rule.maximum() - rule.base()) * height;
}

// `at` counts from the end of the warm-up.
double RuleAt(const Schedule& schedule, double base, const ScheduleStep& at) {
  const uint64_t e = at.step, n = at.total_steps;
  switch (schedule.rule_case()) {
    case Schedule::kStep:
      return base *
             std::pow(Gamma(schedule.step().gamma()),
                      static_cast<double>(e / schedule.step().every_steps()));
    case Schedule::kCosine:
      return At(schedule.cosine(), base, e, n);
    case Schedule::kMultiStep:
      return At(schedule.multi_step(), base, e);
    case Schedule::kConstant:
      return e < StepsOf(schedule.constant())
                 ? base * FactorOf(schedule.constant())
                 : base;
    case Schedule::kLinear:
      return At(schedule.linear(), base, e);
    case Schedule::kExponential:
      return base *
             std::pow(schedule.exponential().gamma(), static_cast<double>(e));
    case Schedule::kCosineRestarts:
      return At(schedule.cosine_restarts(), base, e);
    case Schedule::kPolynomial:
      return At(schedule.polynomial(), base, e, n);
    case Schedule::kOneCycle:
      return At(schedule.one_cycle(), e, n);
    case Schedule::kPlateau:
      return std::max(schedule.plateau().minimum(),
                      base * std::pow(FactorOf(schedule.plateau()),
                                      static_cast<double>(at.reductions)));
    case Schedule::kCyclic:
      return At(schedule.cyclic(), e);
    case Schedule::RULE_NOT_SET:
      break;
  }
  return base;
}

// An interval. Its ends belong to it only if that is set.
struct Range {
  double low = 0;
  double high = kInfinity;
  bool low_belongs = true;
  bool high_belongs = false;
};

// Checks that the value is in the range; NaN is in none.
absl::Status InRange(absl::string_view field, double value,
                     const Range& range) {
  const bool above =
      value > range.low || (range.low_belongs && value == range.low);
  const bool below =
      value < range.high || (range.high_belongs && value == range.high);
  if (above && below) return absl::OkStatus();
  const std::string high =
      range.high == kInfinity
          ? " and finite"
          : absl::StrCat(range.high_belongs ? " and at most " : " and below ",
                         range.high);
  return absl::InvalidArgumentError(absl::StrCat(
      "schedule.", field, " is ", value, "; it must be ",
      range.low_belongs ? "at least " : "above ", range.low, high));
}

absl::Status AtLeastOne(absl::string_view field, uint64_t value) {
  if (value >= 1) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("schedule.", field, " is 0; it must be at least 1"));
}

// Above 0 and finite.
constexpr Range kPositive{0, kInfinity, false};

// Checks the lowest rate of a rule that starts at the base rate.
absl::Status CheckMinimum(absl::string_view field, double value, double base) {
  if (value >= 0 && value <= base) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("schedule.", field, " is ", value,
                   "; it must be from 0 to the learning rate ", base));
}

// Each Check returns INVALID_ARGUMENT when a field is out of range.
absl::Status Check(const Schedule::MultiStep& rule) {
  RETURN_IF_ERROR(InRange("multi_step.gamma", rule.gamma(), {}));
  for (int i = 0; i < rule.milestones_size(); ++i) {
    if (i == 0 || rule.milestones(i) > rule.milestones(i - 1)) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "schedule.multi_step.milestones: ", rule.milestones(i),
        " stands behind ", rule.milestones(i - 1), "; they must rise"));
  }
  if (rule.milestones_size() > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "schedule.multi_step.milestones is empty; name at least one step");
}

absl::Status Check(const Schedule::Linear& rule) {
  RETURN_IF_ERROR(
      InRange("linear.start_factor", StartOf(rule), {0, 1, false, true}));
  RETURN_IF_ERROR(
      InRange("linear.end_factor", EndOf(rule), {0, 1, true, true}));
  return AtLeastOne("linear.steps", StepsOf(rule));
}

absl::Status Check(const Schedule::CosineRestarts& rule, double base) {
  RETURN_IF_ERROR(
      AtLeastOne("cosine_restarts.first_steps", rule.first_steps()));
  RETURN_IF_ERROR(AtLeastOne("cosine_restarts.growth", GrowthOf(rule)));
  return CheckMinimum("cosine_restarts.minimum", rule.minimum(), base);
}

absl::Status Check(const Schedule::Polynomial& rule) {
  if (rule.has_steps()) {
    RETURN_IF_ERROR(AtLeastOne("polynomial.steps", rule.steps()));
  }
  return rule.has_power() ? InRange("polynomial.power", rule.power(), kPositive)
                          : absl::OkStatus();
}

absl::Status Check(const Schedule::OneCycle& rule) {
  RETURN_IF_ERROR(InRange("one_cycle.maximum", rule.maximum(), kPositive));
  RETURN_IF_ERROR(InRange("one_cycle.warm_fraction", WarmFractionOf(rule),
                          {0, 1, true, true}));
  RETURN_IF_ERROR(
      InRange("one_cycle.initial_divisor", InitialDivisorOf(rule), kPositive));
  return InRange("one_cycle.final_divisor", FinalDivisorOf(rule), kPositive);
}

absl::Status Check(const Schedule::Plateau& rule, double base) {
  RETURN_IF_ERROR(
      InRange("plateau.factor", FactorOf(rule), {0, 1, false, false}));
  RETURN_IF_ERROR(InRange("plateau.threshold", rule.threshold(), {0, 1}));
  return CheckMinimum("plateau.minimum", rule.minimum(), base);
}

absl::Status Check(const Schedule::Cyclic& rule) {
  RETURN_IF_ERROR(InRange("cyclic.base", rule.base(), {}));
  RETURN_IF_ERROR(InRange("cyclic.maximum", rule.maximum(), kPositive));
  if (rule.maximum() < rule.base()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "schedule.cyclic.maximum is ", rule.maximum(),
        "; it must be at least schedule.cyclic.base, ", rule.base()));
  }
  RETURN_IF_ERROR(AtLeastOne("cyclic.up_steps", rule.up_steps()));
  // Keeps up_steps + down_steps within 64 bits.
  if (std::max(rule.up_steps(), rule.down_steps()) <= kMaxJobSteps) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      "schedule.cyclic: up_steps and down_steps must be at most 2^48");
}

absl::Status CheckRule(const Schedule& schedule, double base) {
  switch (schedule.rule_case()) {
    case Schedule::kStep:
      RETURN_IF_ERROR(
          AtLeastOne("step.every_steps", schedule.step().every_steps()));
      return InRange("step.gamma", schedule.step().gamma(), {});
    case Schedule::kCosine:
      return CheckMinimum("cosine.minimum", schedule.cosine().minimum(), base);
    case Schedule::kMultiStep:
      return Check(schedule.multi_step());
    case Schedule::kConstant:
      return InRange("constant.factor", FactorOf(schedule.constant()),
                     {0, 1, true, true});
    case Schedule::kLinear:
      return Check(schedule.linear());
    case Schedule::kExponential:
      return InRange("exponential.gamma", schedule.exponential().gamma(),
                     kPositive);
    case Schedule::kCosineRestarts:
      return Check(schedule.cosine_restarts(), base);
    case Schedule::kPolynomial:
      return Check(schedule.polynomial());
    case Schedule::kOneCycle:
      return Check(schedule.one_cycle());
    case Schedule::kPlateau:
      return Check(schedule.plateau(), base);
    case Schedule::kCyclic:
      return Check(schedule.cyclic());
    case Schedule::RULE_NOT_SET:
      break;
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ValidateSchedule(const v1::LearningRateSchedule& schedule,
                              double base, uint64_t total_steps) {
  if (schedule.warmup_steps() >= total_steps) {
    return absl::InvalidArgumentError(absl::StrCat(
        "schedule.warmup_steps is ", schedule.warmup_steps(),
        "; it must be below the ", total_steps, " steps of the job"));
  }
  return CheckRule(schedule, base);
}

double LearningRateAt(const v1::LearningRateSchedule& schedule, double base,
                      const ScheduleStep& at) {
  const uint64_t warmup = schedule.warmup_steps();
  if (at.step < warmup) {
    return base * Ratio(at.step + 1, warmup);
  }
  return RuleAt(schedule, base,
                {.step = at.step - warmup,
                 .total_steps = at.total_steps - warmup,
                 .reductions = at.reductions});
}

}  // namespace gpupool::engine
