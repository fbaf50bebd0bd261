#include "engine/autodiff/step_tail.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/autodiff/formula.h"
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

Recipe RecipeOf(const SgdAttributes& sgd) {
  if (sgd.momentum == 0) return {Op::kSgdStep, sgd, {}};
  return {Op::kSgdStep, sgd, {"/momentum"}};
}
Recipe RecipeOf(const AdamAttributes& adam) {
  return {Op::kAdamStep, adam, {"/adam.m", "/adam.v"}};
}
Recipe RecipeOf(const RmspropAttributes& rmsprop) {
  Recipe recipe{Op::kRmspropStep, rmsprop, {"/rmsprop.v"}};
  if (rmsprop.centered) recipe.states.push_back("/rmsprop.mean");
  if (rmsprop.momentum != 0) recipe.states.push_back("/rmsprop.momentum");
  return recipe;
}
Recipe RecipeOf(const AdagradAttributes& adagrad) {
  return {Op::kAdagradStep, adagrad, {"/adagrad.sum"}};
}
Recipe RecipeOf(const LionAttributes& lion) {
  return {Op::kLionStep, lion, {"/lion.m"}};
}

Recipe MakeRecipe(const StepTailOptions& options) {
  return std::visit(
      [&](auto attributes) {
        attributes.clip = options.clip_norm > 0;
        return RecipeOf(attributes);
      },
      options.optimizer);
}

// min(1, max_norm / (|g| + 1e-6)), as torch.nn.utils.clip_grad_norm_.
absl::StatusOr<ValueId> AddClip(absl::Span<const ValueId> gradients,
                                double max_norm, GraphBuilder& builder) {
  ASSIGN_OR_RETURN(const ValueId norm,
                   builder.EmitOne(Op::kGlobalNorm, gradients));
  autodiff::Formula f(&builder);
  const ValueId divisor =
      f.Binary(BinaryFunction::kAdd, norm, f.Number(1e-6, norm));
  const ValueId ratio =
      f.Binary(BinaryFunction::kDivide, f.Number(max_norm, norm), divisor);
  const ValueId clip =
      f.Binary(BinaryFunction::kMinimum, f.Number(1, norm), ratio);
  RETURN_IF_ERROR(f.status());
  return clip;
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
    ASSIGN_OR_RETURN(clip, AddClip(gradients, options.clip_norm, builder));
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
