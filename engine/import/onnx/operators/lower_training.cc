// Lowers the operators of ai.onnx.preview.training: optimizer steps and
// gradients. Steps follow the operators' specification, which differs from
// PyTorch in details.
#include <onnx/onnx_pb.h>

#include <utility>

#include "engine/autodiff/gradient.h"
#include "engine/base/status_macros.h"
#include "engine/import/onnx/graph/graph_importer.h"
#include "engine/import/onnx/graph/lowering_parts.h"
#include "engine/import/onnx/graph/lowerings.h"

namespace gpupool::engine::onnx_import {
namespace {

using Unary = UnaryFunction;
using Binary = BinaryFunction;

// The inputs of an optimizer: the rate, the number of updates so far, then all
// tensors, all their gradients, and all their states of each kind.
struct OptimizerInputs {
  ValueId rate;    // []
  ValueId before;  // number of updates, [], in the rate's type
  int count = 0;   // number of tensors
};

absl::StatusOr<OptimizerInputs> ReadOptimizer(NodeContext& ctx, int kinds) {
  OptimizerInputs inputs;
  inputs.count = (ctx.input_count() - 2) / kinds;
  if (inputs.count < 1 || inputs.count * kinds + 2 != ctx.input_count()) {
    return ctx.Refuse(ctx.input_count(), " inputs are not a rate, a count and ",
                      kinds, " for each tensor");
  }
  ASSIGN_OR_RETURN(const ValueId rate, ctx.Input(0));
  ASSIGN_OR_RETURN(const ValueId before, ctx.Input(1));
  RETURN_IF_ERROR(RequireFloating(ctx, rate));
  for (ValueId scalar : {rate, before}) {
    if (ctx.shape(scalar).elements() != 1) {
      return ctx.Refuse("the rate and the count must be one number");
    }
  }
  ASSIGN_OR_RETURN(inputs.rate, ctx.Reshape(rate, {}));
  ASSIGN_OR_RETURN(const ValueId number, ctx.Reshape(before, {}));
  ASSIGN_OR_RETURN(inputs.before, ctx.Cast(number, ctx.dtype(rate)));
  return inputs;
}

// Returns input `kind` of tensor i: 0 is the tensor, 1 its gradient, and 2
// onwards its state.
absl::StatusOr<ValueId> OptimizerInput(NodeContext& ctx,
                                       const OptimizerInputs& inputs, int kind,
                                       int i) {
  return ctx.Input(2 + kind * inputs.count + i);
}

struct ScaledTerm {
  double factor;
  ValueId x;
};

// Adds the sum of two terms, factor * x each.
absl::StatusOr<ValueId> Combine(NodeContext& ctx, const ScaledTerm& a,
                                const ScaledTerm& b) {
  ASSIGN_OR_RETURN(const ValueId left,
                   ctx.Binary(Binary::kMultiply, a.x, a.factor));
  ASSIGN_OR_RETURN(const ValueId right,
                   ctx.Binary(Binary::kMultiply, b.x, b.factor));
  return Plus(ctx, left, right);
}

// Adds the derivative of the penalty norm / 2 * |x|^2 to the gradient.
absl::StatusOr<ValueId> Regularised(NodeContext& ctx, ValueId x, ValueId g) {
  ASSIGN_OR_RETURN(const double norm, ctx.Float("norm_coefficient", 0));
  return Combine(ctx, {norm, x}, {1, g});
}

// Adds x - rate * direction.
absl::StatusOr<ValueId> Descend(NodeContext& ctx, ValueId x, ValueId rate,
                                ValueId direction) {
  ASSIGN_OR_RETURN(const ValueId typed, ctx.Cast(rate, ctx.dtype(x)));
  ASSIGN_OR_RETURN(const ValueId step,
                   ctx.Binary(Binary::kMultiply, direction, typed));
  return ctx.Binary(Binary::kSubtract, x, step);
}

// Adds sqrt(x) + epsilon.
absl::StatusOr<ValueId> ShiftedRoot(NodeContext& ctx, ValueId x,
                                    double epsilon) {
  ASSIGN_OR_RETURN(const ValueId root, ctx.Unary(Unary::kSqrt, x));
  return ctx.Binary(Binary::kAdd, root, epsilon);
}

absl::Status LowerAdagrad(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const OptimizerInputs inputs, ReadOptimizer(ctx, 3));
  ASSIGN_OR_RETURN(const double decay, ctx.Float("decay_factor", 0));
  ASSIGN_OR_RETURN(const double epsilon, ctx.Float("epsilon", 1e-6));
  // The rate decays to rate / (1 + decay * updates).
  ASSIGN_OR_RETURN(const ValueId decayed,
                   ctx.Binary(Binary::kMultiply, inputs.before, decay));
  ASSIGN_OR_RETURN(const ValueId divisor,
                   ctx.Binary(Binary::kAdd, decayed, 1.0));
  ASSIGN_OR_RETURN(const ValueId rate,
                   ctx.Binary(Binary::kDivide, inputs.rate, divisor));
  for (int i = 0; i < inputs.count; ++i) {
    ASSIGN_OR_RETURN(const ValueId x, OptimizerInput(ctx, inputs, 0, i));
    ASSIGN_OR_RETURN(const ValueId g, OptimizerInput(ctx, inputs, 1, i));
    ASSIGN_OR_RETURN(const ValueId h, OptimizerInput(ctx, inputs, 2, i));
    ASSIGN_OR_RETURN(const ValueId gradient, Regularised(ctx, x, g));
    ASSIGN_OR_RETURN(const ValueId square,
                     ctx.Binary(Binary::kMultiply, gradient, gradient));
    ASSIGN_OR_RETURN(const ValueId sum, Plus(ctx, h, square));
    ASSIGN_OR_RETURN(const ValueId scale, ShiftedRoot(ctx, sum, epsilon));
    ASSIGN_OR_RETURN(const ValueId direction,
                     ctx.Binary(Binary::kDivide, gradient, scale));
    ASSIGN_OR_RETURN(const ValueId next, Descend(ctx, x, rate, direction));
    ctx.Set(i, next);
    ctx.Set(inputs.count + i, sum);
  }
  return absl::OkStatus();
}

// Adds rate * sqrt(1 - beta^t) / (1 - alpha^t) after t > 0 updates, else the
// rate.
absl::StatusOr<ValueId> AdamRate(NodeContext& ctx,
                                 const OptimizerInputs& inputs, double alpha,
                                 double beta) {
  const DType dtype = ctx.dtype(inputs.rate);
  ValueIds rest;
  for (double decay : {alpha, beta}) {
    ASSIGN_OR_RETURN(
        const ValueId power,
        ctx.Binary(Binary::kPower, ctx.Scalar(dtype, decay), inputs.before));
    ASSIGN_OR_RETURN(
        const ValueId left,
        ctx.Binary(Binary::kSubtract, ctx.Scalar(dtype, 1), power));
    rest.push_back(left);
  }
  ASSIGN_OR_RETURN(const ValueId root, ctx.Unary(Unary::kSqrt, rest[1]));
  ASSIGN_OR_RETURN(const ValueId factor,
                   ctx.Binary(Binary::kDivide, root, rest[0]));
  ASSIGN_OR_RETURN(const ValueId corrected,
                   ctx.Binary(Binary::kMultiply, inputs.rate, factor));
  ASSIGN_OR_RETURN(const ValueId later,
                   ctx.Binary(Binary::kGreater, inputs.before, 0.0));
  return ctx.Emit(Op::kWhere, {later, corrected, inputs.rate});
}

absl::Status LowerAdam(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const OptimizerInputs inputs, ReadOptimizer(ctx, 4));
  ASSIGN_OR_RETURN(const double alpha, ctx.Float("alpha", 0.9));
  ASSIGN_OR_RETURN(const double beta, ctx.Float("beta", 0.999));
  ASSIGN_OR_RETURN(const double epsilon, ctx.Float("epsilon", 1e-6));
  ASSIGN_OR_RETURN(const double after, ctx.Float("norm_coefficient_post", 0));
  ASSIGN_OR_RETURN(const ValueId rate, AdamRate(ctx, inputs, alpha, beta));
  for (int i = 0; i < inputs.count; ++i) {
    ASSIGN_OR_RETURN(const ValueId x, OptimizerInput(ctx, inputs, 0, i));
    ASSIGN_OR_RETURN(const ValueId g, OptimizerInput(ctx, inputs, 1, i));
    ASSIGN_OR_RETURN(const ValueId v, OptimizerInput(ctx, inputs, 2, i));
    ASSIGN_OR_RETURN(const ValueId h, OptimizerInput(ctx, inputs, 3, i));
    ASSIGN_OR_RETURN(const ValueId gradient, Regularised(ctx, x, g));
    ASSIGN_OR_RETURN(const ValueId square,
                     ctx.Binary(Binary::kMultiply, gradient, gradient));
    ASSIGN_OR_RETURN(const ValueId mean,
                     Combine(ctx, {alpha, v}, {1 - alpha, gradient}));
    ASSIGN_OR_RETURN(const ValueId power,
                     Combine(ctx, {beta, h}, {1 - beta, square}));
    ASSIGN_OR_RETURN(const ValueId scale, ShiftedRoot(ctx, power, epsilon));
    ASSIGN_OR_RETURN(const ValueId direction,
                     ctx.Binary(Binary::kDivide, mean, scale));
    ASSIGN_OR_RETURN(const ValueId moved, Descend(ctx, x, rate, direction));
    // norm_coefficient_post shrinks the updated tensor.
    ASSIGN_OR_RETURN(const ValueId next,
                     ctx.Binary(Binary::kMultiply, moved, 1 - after));
    ctx.Set(i, next);
    ctx.Set(inputs.count + i, mean);
    ctx.Set(2 * inputs.count + i, power);
  }
  return absl::OkStatus();
}

absl::Status LowerMomentum(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const OptimizerInputs inputs, ReadOptimizer(ctx, 3));
  ASSIGN_OR_RETURN(const double alpha, ctx.Float("alpha", 0));
  ASSIGN_OR_RETURN(const double beta, ctx.Float("beta", 0));
  ASSIGN_OR_RETURN(const int nesterov,
                   Choice(ctx, "mode", {"standard", "nesterov"}));
  const DType dtype = ctx.dtype(inputs.rate);
  // The first update takes the whole gradient instead of beta times it.
  ASSIGN_OR_RETURN(const ValueId later,
                   ctx.Binary(Binary::kGreater, inputs.before, 0.0));
  ASSIGN_OR_RETURN(const ValueId weight,
                   ctx.Emit(Op::kWhere, {later, ctx.Scalar(dtype, beta),
                                         ctx.Scalar(dtype, 1)}));
  for (int i = 0; i < inputs.count; ++i) {
    ASSIGN_OR_RETURN(const ValueId x, OptimizerInput(ctx, inputs, 0, i));
    ASSIGN_OR_RETURN(const ValueId g, OptimizerInput(ctx, inputs, 1, i));
    ASSIGN_OR_RETURN(const ValueId v, OptimizerInput(ctx, inputs, 2, i));
    ASSIGN_OR_RETURN(const ValueId gradient, Regularised(ctx, x, g));
    ASSIGN_OR_RETURN(const ValueId typed, ctx.Cast(weight, ctx.dtype(x)));
    ASSIGN_OR_RETURN(const ValueId added,
                     ctx.Binary(Binary::kMultiply, gradient, typed));
    ASSIGN_OR_RETURN(const ValueId velocity,
                     Combine(ctx, {alpha, v}, {1, added}));
    ValueId direction = velocity;
    if (nesterov == 1) {
      ASSIGN_OR_RETURN(direction,
                       Combine(ctx, {1, gradient}, {alpha, velocity}));
    }
    ASSIGN_OR_RETURN(const ValueId next,
                     Descend(ctx, x, inputs.rate, direction));
    ctx.Set(i, next);
    ctx.Set(inputs.count + i, velocity);
  }
  return absl::OkStatus();
}

std::vector<std::string> Names(const NodeContext& ctx,
                               absl::string_view attribute) {
  const onnx::AttributeProto* names = ctx.attribute(attribute);
  if (names == nullptr) return {};
  return {names->strings().begin(), names->strings().end()};
}

// Returns the graph's value for a tensor's name.
absl::StatusOr<ValueId> ValueOfName(NodeContext& ctx, const std::string& name) {
  const Entry* entry = ctx.importer().Find(name);
  if (entry == nullptr || !entry->is_tensor()) {
    return ctx.Refuse("there is no tensor '", name, "' in sight");
  }
  return ctx.importer().Materialize(*entry, MemoryClass::kWeight);
}

// Adds d sum(y) / d x for each tensor x named in xs. The inputs must be the
// named tensors themselves. Other values would need a second evaluation of the
// graph.
absl::Status LowerGradient(NodeContext& ctx) {
  std::vector<std::string> names = Names(ctx, "xs");
  const size_t wanted = names.size();
  // The tensors in zs are constants here, so they get no gradients.
  for (std::string& name : Names(ctx, "zs")) names.push_back(std::move(name));
  if (wanted == 0 || names.size() != static_cast<size_t>(ctx.input_count())) {
    return ctx.Refuse(ctx.input_count(), " inputs for ", names.size(),
                      " names in xs and zs");
  }
  ValueIds variables;
  for (size_t i = 0; i < names.size(); ++i) {
    ASSIGN_OR_RETURN(const ValueId named, ValueOfName(ctx, names[i]));
    ASSIGN_OR_RETURN(const ValueId given, ctx.Input(static_cast<int>(i)));
    if (named != given) {
      return ctx.Unsupported("an input that is not the tensor '", names[i],
                             "' itself is not");
    }
    if (i < wanted) variables.push_back(named);
  }
  ASSIGN_OR_RETURN(const std::string name, ctx.String("y", ""));
  ASSIGN_OR_RETURN(ValueId loss, ValueOfName(ctx, name));
  if (ctx.shape(loss).elements() != 1) {
    ASSIGN_OR_RETURN(loss, ctx.Reduce(ReduceFunction::kSum, loss,
                                      AllAxes(ctx.rank(loss)), false));
  }
  absl::StatusOr<std::vector<ValueId>> gradients =
      AddGradients(ctx.builder().graph(), loss, variables);
  if (!gradients.ok()) return ctx.Refuse(gradients.status().message());
  for (size_t i = 0; i < wanted; ++i) {
    ctx.Set(static_cast<int>(i), (*gradients)[i]);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Span<const OperatorEntry> TrainingOperators() {
  static constexpr absl::string_view kFamily = "training";
  static constexpr absl::string_view kDomain = "ai.onnx.preview.training";
  static const OperatorEntry rows[] = {
      {kDomain, "Adagrad", kFamily, kShapes, LowerAdagrad},
      {kDomain, "Adam", kFamily, kShapes, LowerAdam},
      {kDomain, "Gradient", kFamily, kShapes, LowerGradient},
      {kDomain, "Momentum", kFamily, kShapes, LowerMomentum},
  };
  return rows;
}

}  // namespace gpupool::engine::onnx_import
