#include "engine/model/optimizer_options.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "engine/base/refuse.h"
#include "engine/base/status_macros.h"
#include "engine/model/precision.h"
#include "gpupool/v1/job.pb.h"
#include "gpupool/v1/limits.pb.h"

namespace gpupool::engine {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

// The numbers of an optimizer where a job does not give them.
struct Optimizer {
  v1::TrainingSpec::OptimizerCase field;
  OptimizerAttributes attributes;
  double learning_rate;  // 0: it has no good default
};

constexpr Optimizer kOptimizers[] = {
    {v1::TrainingSpec::kSgd, SgdAttributes{}, 0},
    {v1::TrainingSpec::kAdam, AdamAttributes{}, 1e-3},
    {v1::TrainingSpec::kAdamw,
     AdamAttributes{.weight_decay = 1e-2, .decoupled = true}, 1e-3},
    {v1::TrainingSpec::kRmsprop, RmspropAttributes{}, 1e-2},
    {v1::TrainingSpec::kAdagrad, AdagradAttributes{}, 1e-2},
    {v1::TrainingSpec::kLion, LionAttributes{}, 1e-4},
    {v1::TrainingSpec::kAdamax, AdamaxAttributes{}, 2e-3},
};

const Optimizer& DefaultsOf(const v1::TrainingSpec& training) {
  const auto* row = std::find_if(
      std::begin(kOptimizers), std::end(kOptimizers),
      [&](const Optimizer& o) { return o.field == training.optimizer_case(); });
  GPUPOOL_CHECK(row != std::end(kOptimizers));
  return *row;
}

// Checks that the value is within the limit. NaN is outside of every limit.
absl::Status CheckLimit(absl::string_view what, double value, v1::Limit limit) {
  switch (limit) {
    case v1::ABOVE_ZERO:
      if (value > 0 && std::isfinite(value)) return absl::OkStatus();
      return Refuse(what, " ", value, " must be above 0");
    case v1::AT_LEAST_ZERO:
      if (value >= 0 && std::isfinite(value)) return absl::OkStatus();
      return Refuse(what, " ", value, " must be at least 0");
    case v1::SHARE:
      if (value >= 0 && value < 1) return absl::OkStatus();
      return Refuse(what, " ", value, " must be at least 0 and below 1");
    default:
      return absl::OkStatus();
  }
}

// The message of an optimizer and its name in the job, such as "adam".
struct Chosen {
  std::string name;
  const Message& message;

  bool Gives(const FieldDescriptor* field) const {
    return field != nullptr &&
           (!field->has_presence() ||
            message.GetReflection()->HasField(message, field));
  }
  const FieldDescriptor* Find(absl::string_view field) const {
    return message.GetDescriptor()->FindFieldByName(std::string(field));
  }
  // Overwrites the number if the job gives it.
  void operator()(absl::string_view field, double& number) const {
    const FieldDescriptor* found = Find(field);
    if (!Gives(found)) return;
    number = message.GetReflection()->GetDouble(message, found);
  }
  void operator()(absl::string_view field, bool& flag) const {
    const FieldDescriptor* found = Find(field);
    if (!Gives(found)) return;
    flag = message.GetReflection()->GetBool(message, found);
  }
};

absl::StatusOr<Chosen> ChosenIn(const v1::TrainingSpec& training) {
  const auto* optimizers =
      training.GetDescriptor()->FindOneofByName("optimizer");
  const FieldDescriptor* field =
      training.GetReflection()->GetOneofFieldDescriptor(training, optimizers);
  if (field != nullptr) {
    return Chosen{field->name(),
                  training.GetReflection()->GetMessage(training, field)};
  }
  std::string names;
  const int last = optimizers->field_count() - 1;
  for (int i = 0; i <= last; ++i) {
    absl::StrAppend(&names, i == 0 ? "" : (i == last ? " or " : ", "),
                    optimizers->field(i)->name());
  }
  return Refuse("training has no optimizer; choose ", names);
}

absl::Status CheckFields(const Chosen& chosen) {
  const auto* fields = chosen.message.GetDescriptor();
  for (int i = 0; i < fields->field_count(); ++i) {
    const FieldDescriptor* field = fields->field(i);
    const v1::Limit limit = field->options().GetExtension(v1::limit);
    if (limit == v1::ANY || !chosen.Gives(field)) continue;
    double number = 0;
    chosen(field->name(), number);
    RETURN_IF_ERROR(CheckLimit(absl::StrCat(chosen.name, ": ", field->name()),
                               number, limit));
  }
  return absl::OkStatus();
}

absl::Status CheckNesterov(const OptimizerAttributes& optimizer) {
  const auto* sgd = std::get_if<SgdAttributes>(&optimizer);
  if (sgd == nullptr || !sgd->nesterov ||
      (sgd->momentum != 0 && sgd->dampening == 0)) {
    return absl::OkStatus();
  }
  return Refuse("sgd: nesterov needs a momentum above 0 and no dampening");
}

}  // namespace

absl::StatusOr<double> BaseLearningRate(const v1::TrainingSpec& training) {
  ASSIGN_OR_RETURN(const Chosen chosen, ChosenIn(training));
  const double standard = DefaultsOf(training).learning_rate;
  double rate = standard;
  chosen("learning_rate", rate);
  if (rate == 0 && standard == 0) {
    return Refuse("training.", chosen.name,
                  ".learning_rate is missing; it has no good default, 0.1 to "
                  "0.01 is common");
  }
  if (!std::isfinite(rate) || rate <= 0) {
    return Refuse("the learning rate is ", rate,
                  "; it must be finite and above 0");
  }
  return rate;
}

absl::StatusOr<StepTailOptions> ConvertOptimizer(
    const v1::TrainingSpec& training) {
  StepTailOptions options;
  options.clip_value = training.clip_gradient_value();
  RETURN_IF_ERROR(
      CheckLimit("clip_gradient_value", options.clip_value, v1::AT_LEAST_ZERO));
  ASSIGN_OR_RETURN(options.loss_scaling, ConvertLossScaling(training));
  options.clip_norm = training.clip_gradient_norm();
  RETURN_IF_ERROR(
      CheckLimit("clip_gradient_norm", options.clip_norm, v1::AT_LEAST_ZERO));
  ASSIGN_OR_RETURN(const Chosen chosen, ChosenIn(training));
  RETURN_IF_ERROR(CheckFields(chosen));
  options.optimizer = DefaultsOf(training).attributes;
  std::visit(
      [&chosen](auto& optimizer) {
        std::decay_t<decltype(optimizer)>::Fields(optimizer, chosen);
      },
      options.optimizer);
  RETURN_IF_ERROR(CheckNesterov(options.optimizer));
  return options;
}

double InitialOptimizerState(const v1::TrainingSpec& training) {
  return training.adagrad().initial_accumulator();
}

}  // namespace gpupool::engine
