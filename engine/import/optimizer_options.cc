#include "engine/import/optimizer_options.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/import/precision.h"
#include "gpupool/v1/job.pb.h"

namespace gpupool::engine {
namespace {

template <typename... Parts>
absl::Status Refuse(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(parts...));
}

// Checks low <= value < high, which is false for NaN.
absl::Status InRange(absl::string_view what, double value, double low,
                     double high) {
  if (value >= low && value < high) return absl::OkStatus();
  return Refuse(what, " ", value, " must be at least ", low, " and below ",
                high);
}

absl::Status NotNegative(absl::string_view what, double value) {
  if (value >= 0 && std::isfinite(value)) return absl::OkStatus();
  return Refuse(what, " ", value, " must be at least 0");
}

absl::Status Positive(absl::string_view what, double value) {
  if (value > 0 && std::isfinite(value)) return absl::OkStatus();
  return Refuse(what, " ", value, " must be above 0");
}

// Checks the rate, if there is one. The rate itself is an input of the program.
template <typename Optimizer>
absl::Status CheckRate(absl::string_view name, const Optimizer& optimizer) {
  if (!optimizer.has_learning_rate()) return absl::OkStatus();
  return Positive(absl::StrCat(name, ": learning_rate"),
                  optimizer.learning_rate());
}

absl::StatusOr<SgdAttributes> Convert(const v1::Sgd& sgd) {
  RETURN_IF_ERROR(Positive("sgd: learning_rate", sgd.learning_rate()));
  RETURN_IF_ERROR(InRange("sgd: momentum", sgd.momentum(), 0, 1));
  RETURN_IF_ERROR(InRange("sgd: dampening", sgd.dampening(), 0, 1));
  RETURN_IF_ERROR(NotNegative("sgd: weight_decay", sgd.weight_decay()));
  if (sgd.nesterov() && (sgd.momentum() == 0 || sgd.dampening() != 0)) {
    return Refuse("sgd: nesterov needs a momentum above 0 and no dampening");
  }
  return SgdAttributes{.momentum = sgd.momentum(),
                       .dampening = sgd.dampening(),
                       .weight_decay = sgd.weight_decay(),
                       .nesterov = sgd.nesterov()};
}

// Converts the options that Adam and AdamW share.
template <typename AdamProto>
absl::StatusOr<AdamAttributes> ConvertAdam(absl::string_view name,
                                           const AdamProto& adam) {
  AdamAttributes attributes;
  if (adam.has_beta1()) attributes.beta1 = adam.beta1();
  if (adam.has_beta2()) attributes.beta2 = adam.beta2();
  if (adam.has_epsilon()) attributes.epsilon = adam.epsilon();
  attributes.weight_decay = adam.weight_decay();
  const auto what = [name](absl::string_view field) {
    return absl::StrCat(name, ": ", field);
  };
  RETURN_IF_ERROR(CheckRate(name, adam));
  RETURN_IF_ERROR(InRange(what("beta1"), attributes.beta1, 0, 1));
  RETURN_IF_ERROR(InRange(what("beta2"), attributes.beta2, 0, 1));
  RETURN_IF_ERROR(Positive(what("epsilon"), attributes.epsilon));
  RETURN_IF_ERROR(NotNegative(what("weight_decay"), adam.weight_decay()));
  return attributes;
}

absl::StatusOr<AdamAttributes> ConvertAdamW(const v1::AdamW& adamw) {
  ASSIGN_OR_RETURN(AdamAttributes attributes, ConvertAdam("adamw", adamw));
  attributes.decoupled = true;
  // PyTorch's AdamW has the same default.
  if (!adamw.has_weight_decay()) attributes.weight_decay = 1e-2;
  return attributes;
}

absl::StatusOr<RmspropAttributes> Convert(const v1::Rmsprop& rmsprop) {
  RmspropAttributes attributes;
  if (rmsprop.has_alpha()) attributes.alpha = rmsprop.alpha();
  if (rmsprop.has_epsilon()) attributes.epsilon = rmsprop.epsilon();
  attributes.weight_decay = rmsprop.weight_decay();
  attributes.momentum = rmsprop.momentum();
  attributes.centered = rmsprop.centered();
  RETURN_IF_ERROR(CheckRate("rmsprop", rmsprop));
  RETURN_IF_ERROR(InRange("rmsprop: alpha", attributes.alpha, 0, 1));
  RETURN_IF_ERROR(Positive("rmsprop: epsilon", attributes.epsilon));
  RETURN_IF_ERROR(
      NotNegative("rmsprop: weight_decay", attributes.weight_decay));
  RETURN_IF_ERROR(InRange("rmsprop: momentum", attributes.momentum, 0, 1));
  return attributes;
}

absl::StatusOr<AdagradAttributes> Convert(const v1::Adagrad& adagrad) {
  AdagradAttributes attributes;
  if (adagrad.has_epsilon()) attributes.epsilon = adagrad.epsilon();
  attributes.lr_decay = adagrad.lr_decay();
  attributes.weight_decay = adagrad.weight_decay();
  RETURN_IF_ERROR(CheckRate("adagrad", adagrad));
  RETURN_IF_ERROR(NotNegative("adagrad: lr_decay", attributes.lr_decay));
  RETURN_IF_ERROR(Positive("adagrad: epsilon", attributes.epsilon));
  RETURN_IF_ERROR(
      NotNegative("adagrad: weight_decay", attributes.weight_decay));
  RETURN_IF_ERROR(NotNegative("adagrad: initial_accumulator",
                              adagrad.initial_accumulator()));
  return attributes;
}

absl::StatusOr<LionAttributes> Convert(const v1::Lion& lion) {
  LionAttributes attributes;
  if (lion.has_beta1()) attributes.beta1 = lion.beta1();
  if (lion.has_beta2()) attributes.beta2 = lion.beta2();
  attributes.weight_decay = lion.weight_decay();
  RETURN_IF_ERROR(CheckRate("lion", lion));
  RETURN_IF_ERROR(InRange("lion: beta1", attributes.beta1, 0, 1));
  RETURN_IF_ERROR(InRange("lion: beta2", attributes.beta2, 0, 1));
  RETURN_IF_ERROR(NotNegative("lion: weight_decay", attributes.weight_decay));
  return attributes;
}

}  // namespace

absl::StatusOr<StepTailOptions> ConvertOptimizer(
    const v1::TrainingSpec& training) {
  StepTailOptions options;
  options.clip_value = training.clip_gradient_value();
  RETURN_IF_ERROR(NotNegative("clip_gradient_value", options.clip_value));
  ASSIGN_OR_RETURN(options.loss_scaling, ConvertLossScaling(training));
  options.clip_norm = training.clip_gradient_norm();
  RETURN_IF_ERROR(NotNegative("clip_gradient_norm", options.clip_norm));
  switch (training.optimizer_case()) {
    case v1::TrainingSpec::kSgd: {
      ASSIGN_OR_RETURN(options.optimizer, Convert(training.sgd()));
      return options;
    }
    case v1::TrainingSpec::kAdam: {
      ASSIGN_OR_RETURN(options.optimizer, ConvertAdam("adam", training.adam()));
      return options;
    }
    case v1::TrainingSpec::kAdamw: {
      ASSIGN_OR_RETURN(options.optimizer, ConvertAdamW(training.adamw()));
      return options;
    }
    case v1::TrainingSpec::kRmsprop: {
      ASSIGN_OR_RETURN(options.optimizer, Convert(training.rmsprop()));
      return options;
    }
    case v1::TrainingSpec::kAdagrad: {
      ASSIGN_OR_RETURN(options.optimizer, Convert(training.adagrad()));
      return options;
    }
    case v1::TrainingSpec::kLion: {
      ASSIGN_OR_RETURN(options.optimizer, Convert(training.lion()));
      return options;
    }
    case v1::TrainingSpec::OPTIMIZER_NOT_SET:
      break;
  }
  return Refuse(
      "training has no optimizer; choose sgd, adam, adamw, rmsprop, adagrad or "
      "lion");
}

double InitialOptimizerState(const v1::TrainingSpec& training) {
  return training.adagrad().initial_accumulator();
}

}  // namespace gpupool::engine
