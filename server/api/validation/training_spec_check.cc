#include "server/api/validation/training_spec_check.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "engine/base/job_limits.h"
#include "engine/base/mix_numbers.h"
#include "engine/base/status_macros.h"
#include "gpupool/v1/limits.pb.h"
#include "server/api/validation/convert.h"
#include "server/api/validation/field_range.h"

namespace gpupool::server {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::OneofDescriptor;

constexpr uint32_t kMaxTrainingBatch = v1::MAX_TRAINING_ROWS;
constexpr uint64_t kMaxSteps = engine::kMaxJobSteps;
constexpr int kMaxPatterns = engine::kMaxLayers;  // one for each layer
constexpr size_t kMaxPatternBytes = 1024;
constexpr uint32_t kMaxBestCheckpoints = 100;
constexpr uint64_t kMaxGroups = 1000;
constexpr int kMaxWeights = 1'000'000;
constexpr uint64_t kMaxSkippedSteps = uint64_t{1} << 40;

absl::Status Missing(absl::string_view field, absl::string_view choices) {
  return absl::InvalidArgumentError(
      absl::StrCat(field, " is not set; choose ", choices));
}

absl::Status CheckCount(absl::string_view field, uint64_t value, uint64_t low,
                        uint64_t high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, " is ", value, "; it must be ", low, " .. ", high));
}

// Checks a field that may be left out.
absl::Status CheckOptional(const std::string& field, bool given, double value,
                           const Range& range) {
  return given ? CheckRange(field, value, range) : absl::OkStatus();
}

absl::Status CheckWeights(
    absl::string_view field,
    const google::protobuf::RepeatedField<double>& weights,
    const Range& range) {
  if (weights.size() > kMaxWeights) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, " has ", weights.size(), " weights; the limit is ",
                     kMaxWeights));
  }
  for (int i = 0; i < weights.size(); ++i) {
    RETURN_IF_ERROR(
        CheckRange(absl::StrCat(field, "[", i, "]"), weights[i], range));
  }
  return absl::OkStatus();
}

// Checks the weights of a loss. The engine, which knows the model, checks
// their number.
template <typename Losses>
absl::Status CheckLossWeights(const std::string& path, const Losses& losses) {
  RETURN_IF_ERROR(
      CheckWeights(absl::StrCat(path, ".cross_entropy.class_weights"),
                   losses.cross_entropy().class_weights(), kNotNegativeFloat));
  RETURN_IF_ERROR(CheckWeights(
      absl::StrCat(path, ".negative_log_likelihood.class_weights"),
      losses.negative_log_likelihood().class_weights(), kNotNegativeFloat));
  return CheckWeights(absl::StrCat(path, ".bce_with_logits.positive_weights"),
                      losses.bce_with_logits().positive_weights(),
                      kPositiveFloat);
}

// Checks the loss of the whole job or of one output.
template <typename Losses>
absl::Status CheckLoss(const std::string& path, const Losses& losses) {
  if (losses.loss_case() == Losses::LOSS_NOT_SET) {
    return Missing(absl::StrCat(path, "'s loss"),
                   "cross_entropy, mean_squared_error, bce_with_logits, l1, "
                   "huber, negative_log_likelihood or kl_divergence");
  }
  RETURN_IF_ERROR(
      CheckRange(absl::StrCat(path, ".cross_entropy.label_smoothing"),
                 losses.cross_entropy().label_smoothing(), kShare));
  RETURN_IF_ERROR(CheckLossWeights(path, losses));
  return CheckOptional(absl::StrCat(path, ".huber.delta"),
                       losses.huber().has_delta(), losses.huber().delta(),
                       kPositive);
}

absl::Status CheckLosses(const v1::TrainingSpec& training) {
  if (training.losses().empty()) return CheckLoss("training", training);
  RETURN_IF_ERROR(CheckCount("the number of training.losses",
                             static_cast<uint64_t>(training.losses_size()), 1,
                             engine::kMaxLosses));
  if (training.loss_case() != v1::TrainingSpec::LOSS_NOT_SET ||
      !training.output().empty()) {
    return absl::InvalidArgumentError(
        "training.losses replaces training's own loss and output; set those of "
        "each of the losses instead");
  }
  for (int i = 0; i < training.losses_size(); ++i) {
    const v1::OutputLoss& loss = training.losses(i);
    const std::string path = absl::StrCat("training.losses[", i, "]");
    RETURN_IF_ERROR(CheckLoss(path, loss));
    RETURN_IF_ERROR(CheckOptional(absl::StrCat(path, ".weight"),
                                  loss.has_weight(), loss.weight(),
                                  kNotNegative));
  }
  return absl::OkStatus();
}

Range RangeOf(v1::Limit limit) {
  switch (limit) {
    case v1::ABOVE_ZERO:
      return kPositiveFloat;
    case v1::AT_LEAST_ZERO:
      return kNotNegative;
    default:
      return kShare;
  }
}

// Checks the numbers of a message that have a limit (limits.proto).
absl::Status CheckLimits(const std::string& path, const Message& message) {
  const auto* fields = message.GetDescriptor();
  for (int i = 0; i < fields->field_count(); ++i) {
    const FieldDescriptor* field = fields->field(i);
    const v1::Limit limit = field->options().GetExtension(v1::limit);
    if (limit == v1::ANY) continue;
    const bool given = !field->has_presence() ||
                       message.GetReflection()->HasField(message, field);
    RETURN_IF_ERROR(CheckOptional(
        absl::StrCat(path, ".", field->name()), given,
        message.GetReflection()->GetDouble(message, field), RangeOf(limit)));
  }
  return absl::OkStatus();
}

std::string NamesOf(const OneofDescriptor& choices) {
  std::string names;
  const int last = choices.field_count() - 1;
  for (int i = 0; i <= last; ++i) {
    absl::StrAppend(&names, i == 0 ? "" : (i == last ? " or " : ", "),
                    choices.field(i)->name());
  }
  return names;
}

// Checks the fields of the chosen optimizer; exactly one must be chosen.
absl::Status CheckOptimizer(const v1::TrainingSpec& training) {
  const auto* optimizers =
      training.GetDescriptor()->FindOneofByName("optimizer");
  const auto* reflection = training.GetReflection();
  const FieldDescriptor* chosen =
      reflection->GetOneofFieldDescriptor(training, optimizers);
  if (chosen == nullptr) {
    return Missing("training's optimizer", NamesOf(*optimizers));
  }
  RETURN_IF_ERROR(CheckLimits(absl::StrCat("training.", chosen->name()),
                              reflection->GetMessage(training, chosen)));
  const v1::Sgd& sgd = training.sgd();
  if (!sgd.nesterov() || (sgd.momentum() > 0 && sgd.dampening() == 0)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      "training.sgd.nesterov needs a momentum above 0 and no dampening");
}

absl::Status CheckOneCycle(const v1::LearningRateSchedule::OneCycle& rule) {
  const std::string field = "training.schedule.one_cycle";
  RETURN_IF_ERROR(CheckRange(field + ".maximum", rule.maximum(), kPositive));
  RETURN_IF_ERROR(CheckOptional(field + ".warm_fraction",
                                rule.has_warm_fraction(), rule.warm_fraction(),
                                kUpToOne));
  RETURN_IF_ERROR(CheckOptional(field + ".initial_divisor",
                                rule.has_initial_divisor(),
                                rule.initial_divisor(), kPositive));
  return CheckOptional(field + ".final_divisor", rule.has_final_divisor(),
                       rule.final_divisor(), kPositive);
}

absl::Status CheckPlateau(const v1::LearningRateSchedule::Plateau& rule) {
  const std::string field = "training.schedule.plateau";
  RETURN_IF_ERROR(CheckOptional(field + ".factor", rule.has_factor(),
                                rule.factor(), kInside));
  RETURN_IF_ERROR(CheckRange(field + ".threshold", rule.threshold(), kShare));
  return CheckRange(field + ".minimum", rule.minimum(), kNotNegative);
}

absl::Status CheckLinear(const v1::LearningRateSchedule::Linear& rule) {
  const std::string field = "training.schedule.linear";
  RETURN_IF_ERROR(CheckOptional(field + ".start_factor",
                                rule.has_start_factor(), rule.start_factor(),
                                kUpToOne));
  return CheckOptional(field + ".end_factor", rule.has_end_factor(),
                       rule.end_factor(), kUpToOne);
}

// Checks the numbers that depend neither on the rate nor on the job's length.
absl::Status CheckSchedule(const v1::LearningRateSchedule& schedule) {
  const std::string field = "training.schedule";
  switch (schedule.rule_case()) {
    case v1::LearningRateSchedule::kStep:
      RETURN_IF_ERROR(CheckCount(field + ".step.every_steps",
                                 schedule.step().every_steps(), 1, kMaxSteps));
      return CheckRange(field + ".step.gamma", schedule.step().gamma(),
                        kNotNegative);
    case v1::LearningRateSchedule::kCosine:
      return CheckRange(field + ".cosine.minimum", schedule.cosine().minimum(),
                        kNotNegative);
    case v1::LearningRateSchedule::kMultiStep:
      return CheckRange(field + ".multi_step.gamma",
                        schedule.multi_step().gamma(), kNotNegative);
    case v1::LearningRateSchedule::kConstant:
      return CheckRange(field + ".constant.factor",
                        schedule.constant().factor(), kUpToOne);
    case v1::LearningRateSchedule::kLinear:
      return CheckLinear(schedule.linear());
    case v1::LearningRateSchedule::kExponential:
      return CheckRange(field + ".exponential.gamma",
                        schedule.exponential().gamma(), kPositive);
    case v1::LearningRateSchedule::kCosineRestarts:
      RETURN_IF_ERROR(CheckCount(field + ".cosine_restarts.first_steps",
                                 schedule.cosine_restarts().first_steps(), 1,
                                 kMaxSteps));
      return CheckRange(field + ".cosine_restarts.minimum",
                        schedule.cosine_restarts().minimum(), kNotNegative);
    case v1::LearningRateSchedule::kPolynomial:
      return CheckOptional(field + ".polynomial.power",
                           schedule.polynomial().has_power(),
                           schedule.polynomial().power(), kPositive);
    case v1::LearningRateSchedule::kOneCycle:
      return CheckOneCycle(schedule.one_cycle());
    case v1::LearningRateSchedule::kPlateau:
      return CheckPlateau(schedule.plateau());
    case v1::LearningRateSchedule::kCyclic:
      RETURN_IF_ERROR(CheckRange(field + ".cyclic.base",
                                 schedule.cyclic().base(), kNotNegative));
      RETURN_IF_ERROR(CheckRange(field + ".cyclic.maximum",
                                 schedule.cyclic().maximum(), kPositive));
      return CheckCount(field + ".cyclic.up_steps",
                        schedule.cyclic().up_steps(), 1, kMaxSteps);
    case v1::LearningRateSchedule::RULE_NOT_SET:
      break;
  }
  return absl::OkStatus();
}

// Checks that the job's length is given, in steps or in epochs.
absl::Status CheckLength(const v1::TrainingSpec& training) {
  if (training.length_case() == v1::TrainingSpec::LENGTH_NOT_SET) {
    return Missing("training's length", "epochs or steps");
  }
  const bool by_epochs = training.length_case() == v1::TrainingSpec::kEpochs;
  const uint64_t length = by_epochs ? training.epochs() : training.steps();
  if (length >= 1 && length <= kMaxSteps) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("training.", by_epochs ? "epochs" : "steps", " is ", length,
                   "; it must be 1 or more (at most 2^48)"));
}

absl::Status CheckPatterns(
    absl::string_view field,
    const google::protobuf::RepeatedPtrField<std::string>& patterns) {
  if (patterns.size() > kMaxPatterns) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, " has ", patterns.size(),
                     " patterns; the limit is ", kMaxPatterns));
  }
  for (const std::string& pattern : patterns) {
    if (!pattern.empty() && pattern.size() <= kMaxPatternBytes) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(field, " has a pattern of ", pattern.size(),
                     " bytes; it must have 1 ", ".. ", kMaxPatternBytes));
  }
  return absl::OkStatus();
}

absl::Status CheckGroups(const v1::TrainingSpec& training) {
  RETURN_IF_ERROR(CheckCount("the number of training.groups",
                             static_cast<uint64_t>(training.groups_size()), 0,
                             kMaxGroups));
  for (int i = 0; i < training.groups_size(); ++i) {
    const v1::WeightGroup& group = training.groups(i);
    const std::string field = absl::StrCat("training.groups[", i, "]");
    RETURN_IF_ERROR(CheckPatterns(field + ".weights", group.weights()));
    RETURN_IF_ERROR(CheckOptional(field + ".learning_rate_factor",
                                  group.has_learning_rate_factor(),
                                  group.learning_rate_factor(), kNotNegative));
    RETURN_IF_ERROR(CheckOptional(field + ".weight_decay",
                                  group.has_weight_decay(),
                                  group.weight_decay(), kNotNegative));
    if (!group.weights().empty()) continue;
    return Missing(field + ".weights", "names or patterns of weights");
  }
  return absl::OkStatus();
}

absl::Status CheckEvaluation(const v1::TrainingSpec& training) {
  if (training.has_early_stopping()) {
    const v1::EarlyStopping& stopping = training.early_stopping();
    RETURN_IF_ERROR(CheckCount("training.early_stopping.patience",
                               stopping.patience(), 1, UINT32_MAX));
    RETURN_IF_ERROR(CheckRange("training.early_stopping.min_delta",
                               stopping.min_delta(), kNotNegative));
  }
  return CheckCount("training.keep_best_checkpoints",
                    training.keep_best_checkpoints(), 0, kMaxBestCheckpoints);
}

absl::Status CheckProfile(const v1::ProfileSchedule& schedule) {
  const std::string field = "training.profile";
  RETURN_IF_ERROR(CheckCount(field + ".skip_first", schedule.skip_first(), 0,
                             kMaxSkippedSteps));
  RETURN_IF_ERROR(
      CheckCount(field + ".wait", schedule.wait(), 0, kMaxSkippedSteps));
  RETURN_IF_ERROR(CheckCount(field + ".warmup", schedule.warmup(), 0,
                             v1::MAX_PROFILED_STEPS));
  RETURN_IF_ERROR(CheckCount(field + ".active", schedule.active(), 0,
                             v1::MAX_PROFILED_STEPS));
  RETURN_IF_ERROR(CheckCount(field + ".repeat", schedule.repeat(), 0,
                             v1::MAX_RECORDED_PROFILES));
  const uint32_t active = schedule.active() == 0
                              ? uint32_t{v1::DEFAULT_PROFILED_STEPS}
                              : schedule.active();
  const uint32_t steps = active * std::max(schedule.repeat(), 1u);
  if (steps <= uint32_t{v1::MAX_PROFILED_STEPS}) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      field, " profiles ", steps, " steps (", schedule.repeat(), " cycles of ",
      active, "); at most ", static_cast<int>(v1::MAX_PROFILED_STEPS),
      " are allowed: lower active or repeat"));
}

// Checks the form only. The engine, which plans every job, checks what is
// allowed together with the scaling.
absl::Status CheckLossScaling(const v1::TrainingSpec& training) {
  const v1::LossScaling& scaling = training.loss_scaling();
  if (training.has_loss_scaling() && training.precision() != v1::FP16) {
    return absl::InvalidArgumentError(
        "training.loss_scaling is set, but only gradients in float16 need a "
        "scale; set precision: fp16 or leave loss_scaling out");
  }
  RETURN_IF_ERROR(CheckOptional("training.loss_scaling.initial",
                                scaling.has_initial(), scaling.initial(),
                                kPositive));
  RETURN_IF_ERROR(CheckOptional("training.loss_scaling.backoff_factor",
                                scaling.has_backoff_factor(),
                                scaling.backoff_factor(), kInside));
  if (scaling.has_growth_factor() && !(scaling.growth_factor() > 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("training.loss_scaling.growth_factor is ",
                     scaling.growth_factor(), "; it must be above 1"));
  }
  if (!scaling.has_growth_interval()) return absl::OkStatus();
  return CheckCount("training.loss_scaling.growth_interval",
                    scaling.growth_interval(), 1, UINT32_MAX);
}

}  // namespace

absl::Status CheckTrainingSpec(const v1::TrainingSpec& training) {
  RETURN_IF_ERROR(CheckLosses(training));
  RETURN_IF_ERROR(CheckOptimizer(training));
  RETURN_IF_ERROR(CheckCount("training.batch_size", training.batch_size(), 1,
                             kMaxTrainingBatch));
  RETURN_IF_ERROR(CheckCount("training.accumulate_batches",
                             training.accumulate_batches(), 0,
                             kMaxTrainingBatch));
  RETURN_IF_ERROR(CheckLength(training));
  RETURN_IF_ERROR(CheckRange("training.clip_gradient_norm",
                             training.clip_gradient_norm(), kNotNegative));
  RETURN_IF_ERROR(CheckRange("training.clip_gradient_value",
                             training.clip_gradient_value(), kNotNegative));
  RETURN_IF_ERROR(CheckPatterns("training.trainable", training.trainable()));
  RETURN_IF_ERROR(CheckPatterns("training.freeze", training.freeze()));
  RETURN_IF_ERROR(CheckGroups(training));
  RETURN_IF_ERROR(CheckPatterns("training.recompute.layers",
                                training.recompute().layers()));
  RETURN_IF_ERROR(CheckOptional("training.ema.decay", training.has_ema(),
                                training.ema().decay(), kInside));
  RETURN_IF_ERROR(CheckEvaluation(training));
  RETURN_IF_ERROR(CheckPrecision("training.precision", training.precision()));
  RETURN_IF_ERROR(CheckLossScaling(training));
  // The engine checks which of its fields go together.
  RETURN_IF_ERROR(engine::CheckMixNumbers(training.mix()));
  RETURN_IF_ERROR(CheckProfile(training.profile()));
  return CheckSchedule(training.schedule());
}

}  // namespace gpupool::server
