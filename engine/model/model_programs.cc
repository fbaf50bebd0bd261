#include "engine/model/model_programs.h"

#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "engine/autodiff/formula.h"
#include "engine/autodiff/gradient.h"
#include "engine/autodiff/loss_scaling.h"
#include "engine/autodiff/rank_mean.h"
#include "engine/autodiff/step_tail.h"
#include "engine/base/check.h"
#include "engine/base/status_macros.h"
#include "engine/graph/builder.h"
#include "engine/model/loss_terms.h"
#include "engine/model/optimizer_options.h"
#include "engine/model/precision.h"
#include "engine/model/trained_weights.h"
#include "engine/model/weight_groups.h"
#include "engine/passes/formats/autocast.h"
#include "engine/passes/raise/raise.h"
#include "gpupool/v1/job.pb.h"
#include "gpupool/v1/model.pb.h"

namespace gpupool::engine {
namespace {

bool HasScaling(const v1::Scaling& scaling) {
  return scaling.rule_case() != v1::Scaling::RULE_NOT_SET;
}

// Sets a fixed factor, which is known now. Statistics are filled in from the
// data.
void InitialiseScale(const v1::Scaling& scaling, ModelGraph& model) {
  if (scaling.rule_case() != v1::Scaling::kMultiply) return;
  for (PersistentSpec& persistent : model.persistents) {
    if (persistent.name == "input.scale") {
      persistent.initializer.value = scaling.multiply();
    }
  }
}

// Adds "<weight>/grad" for each parameter.
absl::StatusOr<std::vector<ValueId>> AddAccumulators(
    const std::vector<ValueId>& parameters, GraphBuilder& builder) {
  std::vector<ValueId> accumulators;
  for (ValueId parameter : parameters) {
    const Value& weight = builder.value(parameter);
    ASSIGN_OR_RETURN(
        accumulators.emplace_back(),
        builder.Persistent(AccumulatorName(weight.name), weight.type(),
                           MemoryClass::kOptimizer));
  }
  return accumulators;
}

// Returns the means of the accumulated gradients and this batch's. Clears the
// accumulators afterwards.
absl::StatusOr<std::vector<ValueId>> TakeAccumulated(
    const std::vector<ValueId>& parameters,
    const std::vector<ValueId>& gradients, uint32_t batches,
    GraphBuilder& builder) {
  ASSIGN_OR_RETURN(const std::vector<ValueId> accumulators,
                   AddAccumulators(parameters, builder));
  const ValueId yes = builder.Constant({DType::kBool, {}}, {1});
  std::vector<ValueId> means;
  for (size_t i = 0; i < parameters.size(); ++i) {
    autodiff::Formula f(&builder);
    const ValueId sum =
        f.Binary(BinaryFunction::kAdd, accumulators[i], gradients[i]);
    means.push_back(
        f.Binary(BinaryFunction::kMultiply, sum, f.Number(1.0 / batches, sum)));
    // A product with 0 would turn infinities into NaN.
    const ValueId empty =
        f.Where(yes, f.Number(0, accumulators[i]), accumulators[i]);
    RETURN_IF_ERROR(f.status());
    RETURN_IF_ERROR(builder.Update(empty, accumulators[i]));
  }
  return means;
}

// Renames the input "step", since with accumulation dropout counts batches
// while the optimizer counts steps.
void CountBatchesApart(Graph& graph) {
  const Value* step = graph.FindValue("step");
  if (step != nullptr) graph.mutable_value(step->id).name = "batch";
}

// The model's forward graph with loss and gradients.
struct Differentiated {
  ModelGraph model;
  std::vector<ValueId> parameters;
  std::vector<ValueId> gradients;
};

// Updates the ports after values were renumbered. Of the outputs, only the loss
// is left.
void RenewPorts(ModelGraph& model) {
  for (ModelPort& port : model.inputs) {
    const Value* input = model.graph.FindValue(port.name);
    port.value = input == nullptr ? ValueId{} : input->id;
  }
  for (ModelPort& port : model.outputs) port.value = {};
  model.output = {};
}

// Refuses weights of other types for 16-bit arithmetic. It needs float32
// weights, to which small steps still add.
absl::Status CheckTrainedTypes(const v1::TrainingSpec& training,
                               const Graph& graph,
                               const std::vector<ValueId>& parameters) {
  if (ComputeType(training.precision()) == DType::kFloat32) {
    return absl::OkStatus();
  }
  for (const ValueId id : parameters) {
    const Value& weight = graph.value(id);
    if (weight.dtype == DType::kFloat32) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "training.precision: ",
        absl::AsciiStrToLower(v1::Precision_Name(training.precision())),
        " trains float32 weights, but '", weight.name, "' is ",
        DTypeName(weight.dtype),
        "; export the model in float32, freeze the weight, or train with "
        "precision: highest"));
  }
  return absl::OkStatus();
}

// Returns the loss scale, which is the loss's own gradient, or an invalid value
// without loss scaling. Also makes running statistics survive skipped steps.
absl::StatusOr<ValueId> ScaleLoss(const v1::TrainingSpec& training,
                                  Graph& graph) {
  ASSIGN_OR_RETURN(const std::optional<LossScaling> scaling,
                   ConvertLossScaling(training));
  if (!scaling.has_value()) return ValueId{};
  RETURN_IF_ERROR(KeepStatisticsFinite(graph));
  GraphBuilder builder(&graph);
  return AddLossScale(builder);
}

void AddLossScalePersistents(const LossScaling& scaling, ModelGraph& model) {
  PersistentSpec spec{.memory_class = MemoryClass::kOptimizer};
  spec.name = kLossScaleName;
  spec.initializer.value = scaling.initial;
  model.persistents.push_back(spec);
  spec.dtype = DType::kInt64;
  spec.initializer.value = 0;
  for (const char* name : {kLossScaleGrowthName, kLossScaleSkippedName}) {
    spec.name = name;
    model.persistents.push_back(spec);
  }
}

absl::StatusOr<Differentiated> Differentiate(const ModelSource& source,
                                             const v1::Scaling& scaling,
                                             const v1::TrainingSpec& training) {
  Differentiated result;
  ASSIGN_OR_RETURN(result.model,
                   source.Build({.batch = training.batch_size(),
                                 .training = true,
                                 .input_scaling = HasScaling(scaling),
                                 .wide_ports = true}));
  ModelGraph& model = result.model;
  InitialiseScale(scaling, model);
  if (Accumulates(training)) CountBatchesApart(model.graph);
  GraphBuilder builder(&model.graph);
  builder.SetSource("loss", -1);
  ASSIGN_OR_RETURN(ValueId loss, AddLosses(training, model, builder));
  model.graph.AddOutput("loss", loss);
  // Patterns must become one node before the gradients are taken, so that each
  // has one gradient.
  RETURN_IF_ERROR(RaisePatterns(model.graph));
  const DType compute = ComputeType(training.precision());
  if (compute != DType::kFloat32) {
    RETURN_IF_ERROR(Autocast(model.graph, compute));
  }
  // The passes renumbered the values.
  loss = *model.graph.FindOutput("loss");
  RenewPorts(model);
  ASSIGN_OR_RETURN(result.parameters, SelectTrained(training, loss, model));
  RETURN_IF_ERROR(CheckTrainedTypes(training, model.graph, result.parameters));
  ASSIGN_OR_RETURN(const ValueId scale, ScaleLoss(training, model.graph));
  ASSIGN_OR_RETURN(result.gradients,
                   AddGradients(model.graph, loss, result.parameters, scale));
  return result;
}

// Averages the gradients over the step's batches and the ranks.
absl::Status FinishGradients(const v1::TrainingSpec& training, int ranks,
                             GraphBuilder& builder, Differentiated& step) {
  builder.SetSource("optimizer", -1);
  builder.SetMemoryClass(MemoryClass::kGradient);
  // The order in which gradients are complete, so that sums over ranks can
  // start early. It is taken before accumulation adds nodes.
  const std::vector<int> order =
      OrderOfAppearance(step.model.graph, step.gradients);
  if (Accumulates(training)) {
    ASSIGN_OR_RETURN(step.gradients,
                     TakeAccumulated(step.parameters, step.gradients,
                                     training.accumulate_batches(), builder));
  }
  RETURN_IF_ERROR(
      AddRankMean({.ranks = ranks, .order = order}, builder, step.gradients));
  return absl::OkStatus();
}

// Returns the value that overwrites each parameter.
std::vector<ValueId> UpdatedValues(const Graph& graph,
                                   const std::vector<ValueId>& parameters) {
  std::vector<ValueId> updated;
  for (ValueId parameter : parameters) {
    for (const Value& value : graph.values()) {
      if (value.alias.kind == AliasKind::kUpdate &&
          value.alias.of == parameter) {
        updated.push_back(value.id);
      }
    }
  }
  return updated;
}

absl::Status AddAverages(const v1::Ema& ema,
                         const std::vector<ValueId>& parameters,
                         ModelGraph& model) {
  if (!(ema.decay() > 0 && ema.decay() < 1)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "ema: decay ", ema.decay(), " must be above 0 and below 1"));
  }
  const std::vector<ValueId> updated = UpdatedValues(model.graph, parameters);
  GPUPOOL_CHECK(updated.size() == parameters.size());
  GraphBuilder builder(&model.graph);
  builder.SetSource("ema", -1);
  for (size_t i = 0; i < parameters.size(); ++i) {
    const Value weight = builder.value(parameters[i]);
    ASSIGN_OR_RETURN(const ValueId average,
                     builder.Persistent(AverageName(weight.name), weight.type(),
                                        MemoryClass::kOptimizer));
    ASSIGN_OR_RETURN(const ValueId next,
                     builder.EmitOne(Op::kEmaUpdate, {average, updated[i]},
                                     EmaAttributes{ema.decay()}));
    RETURN_IF_ERROR(builder.Update(next, average));
    model.persistents.push_back({.name = AverageName(weight.name),
                                 .dtype = weight.dtype,
                                 .shape = weight.shape,
                                 .memory_class = MemoryClass::kOptimizer});
  }
  return absl::OkStatus();
}

// Makes the graph read the averages instead of the trained weights.
void ReadAverages(const std::vector<ValueId>& trained, ModelGraph& model) {
  for (ValueId id : trained) {
    Value& value = model.graph.mutable_value(id);
    for (PersistentSpec& persistent : model.persistents) {
      if (persistent.name != value.name) continue;
      persistent.name = AverageName(value.name);
      persistent.memory_class = MemoryClass::kOptimizer;
    }
    value.name = AverageName(value.name);
    value.memory_class = MemoryClass::kOptimizer;
  }
}

}  // namespace

bool Accumulates(const v1::TrainingSpec& training) {
  return training.accumulate_batches() > 1;
}

absl::StatusOr<ModelGraph> BuildTrainingGraph(const ModelSource& source,
                                              const v1::Scaling& scaling,
                                              const v1::TrainingSpec& training,
                                              int ranks) {
  ASSIGN_OR_RETURN(StepTailOptions tail, ConvertOptimizer(training));
  ASSIGN_OR_RETURN(Differentiated step,
                   Differentiate(source, scaling, training));
  ModelGraph& model = step.model;
  GraphBuilder builder(&model.graph);
  ASSIGN_OR_RETURN(tail.parameters,
                   OptionsOfWeights(training, model.graph, step.parameters));
  RETURN_IF_ERROR(FinishGradients(training, ranks, builder, step));
  ASSIGN_OR_RETURN(
      const std::vector<OptimizerState> states,
      AddStepTail(model.graph, step.parameters, step.gradients, tail));
  for (const OptimizerState& state : states) {
    model.persistents.push_back(
        {.name = state.name,
         .dtype = state.dtype,
         .shape = state.shape,
         .memory_class = MemoryClass::kOptimizer,
         .initializer = {.value = InitialOptimizerState(training)}});
  }
  if (tail.loss_scaling.has_value()) {
    AddLossScalePersistents(*tail.loss_scaling, model);
  }
  if (training.has_ema()) {
    RETURN_IF_ERROR(AddAverages(training.ema(), step.parameters, model));
  }
  return std::move(step.model);
}

absl::StatusOr<ModelGraph> BuildAccumulationGraph(
    const ModelSource& source, const v1::Scaling& scaling,
    const v1::TrainingSpec& training) {
  GPUPOOL_CHECK(Accumulates(training));
  ASSIGN_OR_RETURN(Differentiated step,
                   Differentiate(source, scaling, training));
  GraphBuilder builder(&step.model.graph);
  builder.SetSource("optimizer", -1);
  builder.SetMemoryClass(MemoryClass::kGradient);
  ASSIGN_OR_RETURN(const std::vector<ValueId> accumulators,
                   AddAccumulators(step.parameters, builder));
  for (size_t i = 0; i < accumulators.size(); ++i) {
    ASSIGN_OR_RETURN(
        const ValueId sum,
        builder.EmitOne(Op::kAdd, {accumulators[i], step.gradients[i]}));
    RETURN_IF_ERROR(builder.Update(sum, accumulators[i]));
  }
  return std::move(step.model);
}

absl::StatusOr<ModelGraph> BuildEvalGraph(const ModelSource& source,
                                          const v1::Scaling& scaling,
                                          const v1::TrainingSpec& training,
                                          int64_t batch) {
  ASSIGN_OR_RETURN(ModelGraph model,
                   source.Build({.batch = batch,
                                 .input_scaling = HasScaling(scaling),
                                 .wide_ports = true}));
  InitialiseScale(scaling, model);
  GraphBuilder builder(&model.graph);
  builder.SetSource("loss", -1);
  ASSIGN_OR_RETURN(const ValueId loss,
                   AddEvaluations(training, model, builder));
  // Only trained weights have averages.
  if (training.has_ema()) {
    ASSIGN_OR_RETURN(const std::vector<ValueId> trained,
                     SelectTrained(training, loss, model));
    ReadAverages(trained, model);
  }
  return model;
}

absl::StatusOr<ModelGraph> BuildInferenceGraph(const ModelSource& source,
                                               bool input_scaling,
                                               int64_t batch) {
  return BuildInferenceGraph(
      source, BuildOptions{.batch = batch, .input_scaling = input_scaling});
}

absl::StatusOr<ModelGraph> BuildInferenceGraph(const ModelSource& source,
                                               const BuildOptions& options) {
  ASSIGN_OR_RETURN(ModelGraph model, source.Build(options));
  for (const ModelPort& port : model.outputs) {
    model.graph.AddOutput(port.name, port.value);
  }
  return model;
}

absl::StatusOr<ModelGraph> BuildTrainingGraph(
    const v1::ModelSpec& model, const v1::Scaling& scaling,
    const v1::TrainingSpec& training) {
  ASSIGN_OR_RETURN(const auto source, ModelSource::Open(model, ""));
  return BuildTrainingGraph(*source, scaling, training);
}

absl::StatusOr<ModelGraph> BuildEvalGraph(const v1::ModelSpec& model,
                                          const v1::Scaling& scaling,
                                          const v1::TrainingSpec& training,
                                          int64_t batch) {
  ASSIGN_OR_RETURN(const auto source, ModelSource::Open(model, ""));
  return BuildEvalGraph(*source, scaling, training, batch);
}

absl::StatusOr<ModelGraph> BuildInferenceGraph(const v1::ModelSpec& model,
                                               bool input_scaling,
                                               int64_t batch) {
  ASSIGN_OR_RETURN(const auto source, ModelSource::Open(model, ""));
  return BuildInferenceGraph(*source, input_scaling, batch);
}

}  // namespace gpupool::engine
