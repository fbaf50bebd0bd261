#include "engine/import/model_programs.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/autodiff/gradient.h"
#include "engine/autodiff/step_tail.h"
#include "engine/base/status_macros.h"
#include "engine/graph/builder.h"
#include "gpupool/v1/job.pb.h"
#include "gpupool/v1/model.pb.h"

namespace gpupool::engine {
namespace {

const TensorType kInt64Scalar{DType::kInt64, {}};

template <typename... Parts>
absl::Status Refuse(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(parts...));
}

// low <= value < high; NaN is out of every range.
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

bool HasScaling(const v1::Scaling& scaling) {
  return scaling.rule_case() != v1::Scaling::RULE_NOT_SET;
}

// A fixed factor is known now; statistics are filled in from the data.
void InitialiseScale(const v1::Scaling& scaling, ModelGraph& model) {
  if (scaling.rule_case() != v1::Scaling::kMultiply) return;
  for (PersistentSpec& persistent : model.persistents) {
    if (persistent.name == "input.scale") {
      persistent.initializer.value = scaling.multiply();
    }
  }
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

// Adam or AdamW.
template <typename AdamProto>
absl::StatusOr<AdamAttributes> ConvertAdam(absl::string_view name,
                                           const AdamProto& adam) {
  AdamAttributes attributes;
  if (adam.has_beta1()) attributes.beta1 = adam.beta1();
  if (adam.has_beta2()) attributes.beta2 = adam.beta2();
  if (adam.has_epsilon()) attributes.epsilon = adam.epsilon();
  const auto what = [name](absl::string_view field) {
    return absl::StrCat(name, ": ", field);
  };
  if (adam.has_learning_rate()) {
    RETURN_IF_ERROR(Positive(what("learning_rate"), adam.learning_rate()));
  }
  RETURN_IF_ERROR(InRange(what("beta1"), attributes.beta1, 0, 1));
  RETURN_IF_ERROR(InRange(what("beta2"), attributes.beta2, 0, 1));
  RETURN_IF_ERROR(Positive(what("epsilon"), attributes.epsilon));
  RETURN_IF_ERROR(NotNegative(what("weight_decay"), adam.weight_decay()));
  attributes.weight_decay = adam.weight_decay();
  return attributes;
}

absl::StatusOr<StepTailOptions> Convert(const v1::TrainingSpec& training) {
  StepTailOptions options;
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
      ASSIGN_OR_RETURN(AdamAttributes adam,
                       ConvertAdam("adamw", training.adamw()));
      adam.decoupled = true;
      if (!training.adamw().has_weight_decay()) adam.weight_decay = 1e-2;
      options.optimizer = adam;
      return options;
    }
    default:
      break;
  }
  return Refuse("training has no optimizer; choose sgd, adam or adamw");
}

// The loss op over the model's output and its labels or target.
struct LossParts {
  Op op = Op::kCrossEntropy;
  LossAttributes attributes;
  ValueIds inputs;
};

absl::StatusOr<LossParts> MakeLoss(const v1::TrainingSpec& training,
                                   const ModelGraph& model,
                                   GraphBuilder& builder) {
  LossParts loss;
  const Shape shape = builder.shape(model.output);
  switch (training.loss_case()) {
    case v1::TrainingSpec::kCrossEntropy: {
      if (shape.rank() != 2) {
        return Refuse("cross_entropy needs one number per class, but the ",
                      "model's output is ", model.output_shape.ToString(),
                      "; add a flatten and a dense layer");
      }
      loss.attributes.label_smoothing =
          training.cross_entropy().label_smoothing();
      ASSIGN_OR_RETURN(const ValueId labels,
                       builder.Input("labels", {DType::kInt64, {shape[0]}}));
      loss.inputs = {model.output, labels};
      return loss;
    }
    case v1::TrainingSpec::kMeanSquaredError: {
      loss.op = Op::kMeanSquaredError;
      ASSIGN_OR_RETURN(const ValueId target,
                       builder.Input("target", {DType::kFloat32, shape}));
      loss.inputs = {model.output, target};
      return loss;
    }
    default:
      break;
  }
  return Refuse("training has no loss; choose cross_entropy or ",
                "mean_squared_error");
}

// In the order of the layers, as the persistents are.
std::vector<ValueId> TrainableValues(const ModelGraph& model) {
  std::vector<ValueId> values;
  for (const Value& value : model.graph.values()) {
    if (value.kind == ValueKind::kPersistent &&
        value.memory_class == MemoryClass::kWeight) {
      values.push_back(value.id);
    }
  }
  return values;
}

}  // namespace

absl::StatusOr<ModelGraph> BuildTrainingGraph(
    const v1::ModelSpec& spec, const v1::Scaling& scaling,
    const v1::TrainingSpec& training) {
  ASSIGN_OR_RETURN(const StepTailOptions tail, Convert(training));
  ASSIGN_OR_RETURN(ModelGraph model,
                   BuildModel(spec, {.batch = training.batch_size(),
                                     .training = true,
                                     .input_scaling = HasScaling(scaling)}));
  InitialiseScale(scaling, model);
  GraphBuilder builder(&model.graph);
  builder.SetSource("loss", -1);
  ASSIGN_OR_RETURN(const LossParts parts, MakeLoss(training, model, builder));
  ASSIGN_OR_RETURN(const ValueId loss,
                   builder.EmitOne(parts.op, parts.inputs, parts.attributes));
  model.graph.AddOutput("loss", loss);
  const std::vector<ValueId> parameters = TrainableValues(model);
  if (parameters.empty()) {
    return Refuse("the model has no weights; there is nothing to train");
  }
  ASSIGN_OR_RETURN(const std::vector<ValueId> gradients,
                   AddGradients(model.graph, loss, parameters));
  ASSIGN_OR_RETURN(const std::vector<OptimizerState> states,
                   AddStepTail(model.graph, parameters, gradients, tail));
  for (const OptimizerState& state : states) {
    model.persistents.push_back({.name = state.name,
                                 .dtype = state.dtype,
                                 .shape = state.shape,
                                 .memory_class = MemoryClass::kOptimizer});
  }
  return model;
}

absl::StatusOr<ModelGraph> BuildEvalGraph(const v1::ModelSpec& spec,
                                          const v1::Scaling& scaling,
                                          const v1::TrainingSpec& training,
                                          int64_t batch) {
  ASSIGN_OR_RETURN(
      ModelGraph model,
      BuildModel(spec, {.batch = batch, .input_scaling = HasScaling(scaling)}));
  InitialiseScale(scaling, model);
  GraphBuilder builder(&model.graph);
  builder.SetSource("loss", -1);
  ASSIGN_OR_RETURN(LossParts parts, MakeLoss(training, model, builder));
  ASSIGN_OR_RETURN(const ValueId row_count,
                   builder.Input("row_count", kInt64Scalar));
  parts.inputs.push_back(row_count);
  parts.attributes.reduction = Reduction::kSum;
  ASSIGN_OR_RETURN(const ValueId loss_sum,
                   builder.EmitOne(parts.op, parts.inputs, parts.attributes));
  model.graph.AddOutput("loss_sum", loss_sum);
  if (parts.op == Op::kCrossEntropy) {
    ASSIGN_OR_RETURN(const ValueId correct,
                     builder.EmitOne(Op::kCorrectCount, parts.inputs));
    model.graph.AddOutput("correct", correct);
  }
  return model;
}

absl::StatusOr<ModelGraph> BuildInferenceGraph(const v1::ModelSpec& spec,
                                               bool input_scaling,
                                               int64_t batch) {
  ASSIGN_OR_RETURN(
      ModelGraph model,
      BuildModel(spec, {.batch = batch, .input_scaling = input_scaling}));
  model.graph.AddOutput("output", model.output);
  return model;
}

}  // namespace gpupool::engine
