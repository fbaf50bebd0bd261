#include "engine/autodiff/step_tail.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "engine/base/status_macros.h"
#include "engine/graph/builder.h"

namespace gpupool::engine {
namespace {

// Op, attributes and names of the state tensors of one optimizer.
struct Recipe {
  Op op;
  Attributes attributes;
  std::vector<std::string> states;
};

Recipe MakeRecipe(const StepTailOptions& options) {
  const bool clip = options.clip_norm > 0;
  if (const auto* sgd = std::get_if<SgdAttributes>(&options.optimizer)) {
    SgdAttributes attributes = *sgd;
    attributes.clip = clip;
    std::vector<std::string> states;
    if (sgd->momentum != 0) states.push_back("/momentum");
    return {Op::kSgdStep, attributes, std::move(states)};
  }
  AdamAttributes attributes = std::get<AdamAttributes>(options.optimizer);
  attributes.clip = clip;
  return {Op::kAdamStep, attributes, {"/adam.m", "/adam.v"}};
}

}  // namespace

absl::StatusOr<std::vector<OptimizerState>> AddStepTail(
    Graph& graph, absl::Span<const ValueId> parameters,
    absl::Span<const ValueId> gradients, const StepTailOptions& options) {
  GPUPOOL_CHECK(parameters.size() == gradients.size());
  GraphBuilder builder(&graph);
  builder.SetSource("optimizer", -1);
  ASSIGN_OR_RETURN(const ValueId rate,
                   builder.Input("learning_rate", {DType::kFloat64, {}}));
  ASSIGN_OR_RETURN(const ValueId step,
                   builder.Input("step", {DType::kInt64, {}}));
  ValueId clip;
  if (options.clip_norm > 0) {
    ASSIGN_OR_RETURN(clip, builder.EmitOne(Op::kClipCoefficient, gradients,
                                           ClipAttributes{options.clip_norm}));
  }
  const Recipe recipe = MakeRecipe(options);
  std::vector<OptimizerState> states;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const std::string name = graph.value(parameters[i]).name;
    const TensorType type = graph.value(parameters[i]).type();
    ValueIds inputs{parameters[i], gradients[i], rate, step};
    ValueIds updated{parameters[i]};
    for (const std::string& suffix : recipe.states) {
      states.push_back({name + suffix, type.dtype, type.shape});
      ASSIGN_OR_RETURN(const ValueId state,
                       builder.Persistent(states.back().name, type,
                                          MemoryClass::kOptimizer));
      inputs.push_back(state);
      updated.push_back(state);
    }
    if (clip.valid()) inputs.push_back(clip);
    ASSIGN_OR_RETURN(const ValueIds outputs,
                     builder.Emit(recipe.op, inputs, recipe.attributes));
    for (size_t k = 0; k < outputs.size(); ++k) {
      RETURN_IF_ERROR(builder.Update(outputs[k], updated[k]));
    }
  }
  return states;
}

}  // namespace gpupool::engine
