#include "engine/autodiff/step_tail.h"

#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/autodiff/formula.h"
#include "engine/base/check.h"
#include "engine/base/status_macros.h"
#include "engine/graph/builder.h"

namespace gpupool::engine {
namespace {

// The op, attributes and state names of one optimizer.
struct Recipe {
  Op op;
  Attributes attributes;
  std::vector<absl::string_view> states;
};

Recipe MakeRecipe(const StepTailOptions& options,
                  const ParameterOptions& parameter, bool clip) {
  return std::visit(
      [&parameter, clip](auto optimizer) -> Recipe {
        optimizer.clip = clip;
        // A negative number means that the parameter has no decay of its own.
        if (parameter.weight_decay >= 0) {
          optimizer.weight_decay = parameter.weight_decay;
        }
        return {StepOf(optimizer), optimizer, optimizer.states()};
      },
      options.optimizer);
}

using autodiff::Formula;

// Clamps to [-limit, limit], times the scale if there is one.
absl::StatusOr<std::vector<ValueId>> Clamp(absl::Span<const ValueId> gradients,
                                           double limit, ValueId scale,
                                           GraphBuilder& builder) {
  Formula f(&builder);
  ValueId least, most;
  if (scale.valid()) {
    // Gradients are still scaled here, so the limit is scaled as well.
    most = f.Binary(BinaryFunction::kMultiply, scale, f.Number(limit, scale));
    least = f.Unary(UnaryFunction::kNegate, most);
    RETURN_IF_ERROR(f.status());
  }
  builder.SetMemoryClass(MemoryClass::kGradient);
  std::vector<ValueId> clamped;
  for (const ValueId gradient : gradients) {
    if (scale.valid()) {
      clamped.push_back(
          f.Binary(BinaryFunction::kMaximum,
                   f.Binary(BinaryFunction::kMinimum, gradient, most), least));
      continue;
    }
    ASSIGN_OR_RETURN(
        clamped.emplace_back(),
        builder.EmitOne(Op::kUnary, {gradient},
                        UnaryAttributes{UnaryFunction::kClip, -limit, limit}));
  }
  builder.SetMemoryClass(MemoryClass::kActivation);
  RETURN_IF_ERROR(f.status());
  return clamped;
}

// Returns min(1, max_norm / (norm + 1e-6)), as torch.nn.utils.clip_grad_norm_.
// With a scale, `norm` is the norm of scaled gradients.
absl::StatusOr<ValueId> ClipCoefficient(ValueId norm, double max_norm,
                                        ValueId scale, GraphBuilder& builder) {
  Formula f(&builder);
  if (scale.valid()) norm = f.Binary(BinaryFunction::kDivide, norm, scale);
  const ValueId divisor =
      f.Binary(BinaryFunction::kAdd, norm, f.Number(1e-6, norm));
  const ValueId ratio =
      f.Binary(BinaryFunction::kDivide, f.Number(max_norm, norm), divisor);
  const ValueId clip =
      f.Binary(BinaryFunction::kMinimum, f.Number(1, norm), ratio);
  RETURN_IF_ERROR(f.status());
  return clip;
}

// Inputs of the optimizer nodes that depend on all gradients together.
struct Clipped {
  std::vector<ValueId> gradients;
  ValueId clip;      // invalid: 1
  ValueId step;      // the optimizer's count of steps
  ValueId raw_norm;  // only with loss scaling
};

// Clamps by value, then computes the coefficient that limits the norm. With
// loss scaling the coefficient also removes the scale.
absl::StatusOr<Clipped> ClipAll(absl::Span<const ValueId> gradients,
                                ValueId step, const StepTailOptions& options,
                                GraphBuilder& builder) {
  Clipped result{{gradients.begin(), gradients.end()}, {}, step, {}};
  const bool scaled = options.loss_scaling.has_value();
  ValueId scale;
  if (scaled) {
    ASSIGN_OR_RETURN(scale, AddLossScale(builder));
    // Taken before clamping, which makes every number finite.
    ASSIGN_OR_RETURN(result.raw_norm,
                     builder.EmitOne(Op::kGlobalNorm, gradients));
  }
  ValueId norm = result.raw_norm;
  if (options.clip_value > 0) {
    ASSIGN_OR_RETURN(result.gradients,
                     Clamp(gradients, options.clip_value, scale, builder));
    // The norm is limited after the clamping, so it is computed again.
    norm = {};
  }
  if (options.clip_norm > 0) {
    if (!norm.valid()) {
      ASSIGN_OR_RETURN(norm,
                       builder.EmitOne(Op::kGlobalNorm, result.gradients));
    }
    ASSIGN_OR_RETURN(result.clip,
                     ClipCoefficient(norm, options.clip_norm, scale, builder));
  }
  if (!scaled) return result;
  ASSIGN_OR_RETURN(const ScaledStep scaled_step,
                   AddScaledStep(result.raw_norm, result.clip, step, builder));
  result.clip = scaled_step.clip;
  result.step = scaled_step.step;
  return result;
}

// The learning rates of the parameters: one node for each different factor.
class Rates {
 public:
  Rates(ValueId rate, GraphBuilder* builder) : builder_(builder) {
    // Most parameters have the factor 1, which needs no product.
    by_factor_[1] = rate;
  }

  absl::StatusOr<ValueId> Times(double factor) {
    const auto known = by_factor_.find(factor);
    if (known != by_factor_.end()) return known->second;
    Formula f(builder_);
    const ValueId rate = by_factor_[1];
    const ValueId product =
        f.Binary(BinaryFunction::kMultiply, rate, f.Number(factor, rate));
    RETURN_IF_ERROR(f.status());
    return by_factor_[factor] = product;
  }

 private:
  GraphBuilder* builder_;
  std::map<double, ValueId> by_factor_;
};

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
  ASSIGN_OR_RETURN(const Clipped clipped,
                   ClipAll(gradients, step, options, builder));
  GPUPOOL_CHECK(options.parameters.empty() ||
                options.parameters.size() == parameters.size());
  Rates rates(rate, &builder);
  std::vector<OptimizerState> states;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const ParameterOptions own =
        options.parameters.empty() ? ParameterOptions() : options.parameters[i];
    const Recipe recipe = MakeRecipe(options, own, clipped.clip.valid());
    ASSIGN_OR_RETURN(const ValueId own_rate, rates.Times(own.rate_factor));
    const std::string name = graph.value(parameters[i]).name;
    const TensorType type = graph.value(parameters[i]).type();
    ValueIds inputs{parameters[i], clipped.gradients[i], own_rate,
                    clipped.step};
    ValueIds updated{parameters[i]};
    for (const absl::string_view suffix : recipe.states) {
      states.push_back({absl::StrCat(name, suffix), type.dtype, type.shape});
      ASSIGN_OR_RETURN(const ValueId state,
                       builder.Persistent(states.back().name, type,
                                          MemoryClass::kOptimizer));
      inputs.push_back(state);
      updated.push_back(state);
    }
    if (clipped.clip.valid()) inputs.push_back(clipped.clip);
    ASSIGN_OR_RETURN(const ValueIds outputs,
                     builder.Emit(recipe.op, inputs, recipe.attributes));
    // The optimizer overwrites the parameter and its states in place.
    for (size_t k = 0; k < outputs.size(); ++k) {
      RETURN_IF_ERROR(builder.Update(outputs[k], updated[k]));
    }
  }
  if (options.loss_scaling.has_value()) {
    RETURN_IF_ERROR(
        UpdateLossScale(clipped.raw_norm, *options.loss_scaling, builder));
  }
  return states;
}

}  // namespace gpupool::engine
