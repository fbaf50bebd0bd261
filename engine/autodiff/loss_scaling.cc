#include "engine/autodiff/loss_scaling.h"

#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/autodiff/formula.h"
#include "engine/base/status_macros.h"

namespace gpupool::engine {
namespace {

using autodiff::Formula;
using Binary = BinaryFunction;

const TensorType kFloatScalar{DType::kFloat32, {}};
const TensorType kCountScalar{DType::kInt64, {}};

// Returns whether x is finite: comparisons with NaN are false.
ValueId IsFinite(ValueId x, Formula& f) {
  const double largest = std::numeric_limits<float>::max();
  return f.Binary(Binary::kLessOrEqual, f.Unary(UnaryFunction::kAbs, x),
                  f.Number(largest, x));
}

absl::StatusOr<ValueId> Count(absl::string_view name, GraphBuilder& builder) {
  return builder.Persistent(name, kCountScalar, MemoryClass::kOptimizer);
}

// Overwrites `persistent` with `condition ? a : b`.
absl::StatusOr<ValueId> Overwrite(ValueId persistent, ValueId condition,
                                  ValueId a, ValueId b, GraphBuilder& builder) {
  ASSIGN_OR_RETURN(const ValueId next,
                   builder.EmitOne(Op::kWhere, {condition, a, b}));
  RETURN_IF_ERROR(builder.Update(next, persistent));
  return next;
}

}  // namespace

absl::StatusOr<ValueId> AddLossScale(GraphBuilder& builder) {
  const Value* taken = builder.graph().FindValue(kLossScaleName);
  if (taken != nullptr && taken->memory_class != MemoryClass::kOptimizer) {
    return absl::InvalidArgumentError(
        absl::StrCat("the model has a value '", kLossScaleName,
                     "', which is the name of the loss scale; rename it"));
  }
  return builder.Persistent(kLossScaleName, kFloatScalar,
                            MemoryClass::kOptimizer);
}

absl::StatusOr<ScaledStep> AddScaledStep(ValueId norm, ValueId coefficient,
                                         ValueId step, GraphBuilder& builder) {
  ASSIGN_OR_RETURN(const ValueId scale, AddLossScale(builder));
  ASSIGN_OR_RETURN(const ValueId skipped,
                   Count(kLossScaleSkippedName, builder));
  Formula f(&builder);
  if (!coefficient.valid()) coefficient = f.Number(1, scale);
  const ValueId clip = f.Binary(Binary::kDivide, coefficient, scale);
  // The optimizers change nothing when their clip is NaN.
  const ValueId none =
      f.Number(std::numeric_limits<double>::quiet_NaN(), scale);
  const ScaledStep result{f.Where(IsFinite(norm, f), clip, none),
                          f.Binary(Binary::kSubtract, step, skipped)};
  RETURN_IF_ERROR(f.status());
  return result;
}

absl::Status UpdateLossScale(ValueId norm, const LossScaling& scaling,
                             GraphBuilder& builder) {
  ASSIGN_OR_RETURN(const ValueId scale, AddLossScale(builder));
  ASSIGN_OR_RETURN(const ValueId growth, Count(kLossScaleGrowthName, builder));
  ASSIGN_OR_RETURN(const ValueId skipped,
                   Count(kLossScaleSkippedName, builder));
  Formula f(&builder);
  const ValueId finite = IsFinite(norm, f);
  const ValueId one = f.Number(1, growth);
  const ValueId count = f.Binary(Binary::kAdd, growth, one);
  const ValueId ripe =
      f.Binary(Binary::kGreaterOrEqual, count,
               f.Number(static_cast<double>(scaling.growth_interval), count));
  const ValueId raised = f.Binary(Binary::kMultiply, scale,
                                  f.Number(scaling.growth_factor, scale));
  const ValueId lowered = f.Binary(Binary::kMultiply, scale,
                                   f.Number(scaling.backoff_factor, scale));
  // A scale that would become infinite is not raised; `holds` keeps it then.
  // `added` counts a finite step, or resets the count of growth to 0.
  const ValueId changed = f.Where(finite, raised, lowered);
  const ValueId raises = f.Binary(Binary::kAnd, ripe, IsFinite(raised, f));
  const ValueId holds =
      f.Binary(Binary::kAnd, finite, f.Unary(UnaryFunction::kNot, raises));
  const ValueId counts =
      f.Binary(Binary::kAnd, finite, f.Unary(UnaryFunction::kNot, ripe));
  const ValueId added =
      f.Where(counts, one, f.Unary(UnaryFunction::kNegate, growth));
  const ValueId more = f.Binary(Binary::kAdd, skipped, one);
  RETURN_IF_ERROR(f.status());
  // Each of these nodes reads the value that it overwrites.
  ASSIGN_OR_RETURN(const ValueId next_scale,
                   Overwrite(scale, holds, scale, changed, builder));
  ASSIGN_OR_RETURN(const ValueId next_growth,
                   builder.EmitOne(Op::kBinary, {growth, added},
                                   BinaryAttributes{Binary::kAdd}));
  RETURN_IF_ERROR(builder.Update(next_growth, growth));
  ASSIGN_OR_RETURN(const ValueId next_skipped,
                   Overwrite(skipped, finite, skipped, more, builder));
  builder.graph().AddOutput("loss_scale", next_scale);
  builder.graph().AddOutput("skipped_steps", next_skipped);
  return absl::OkStatus();
}

absl::Status KeepStatisticsFinite(Graph& graph) {
  std::vector<Node> old = std::move(graph.mutable_nodes());
  graph.mutable_nodes().clear();
  GraphBuilder builder(&graph);
  for (Node& node : old) {
    const bool update = node.op == Op::kBatchNormUpdate;
    const ValueIds outputs = node.outputs;
    builder.SetSource(node.source, node.region);
    graph.AddNode(std::move(node));
    if (!update) continue;
    for (const ValueId id : outputs) {
      // The node's own update is replaced by a choice after it: the new value
      // if that is finite, else the old one.
      const Alias alias = std::exchange(graph.mutable_value(id).alias, Alias{});
      if (alias.kind != AliasKind::kUpdate) continue;
      graph.mutable_value(id).memory_class = MemoryClass::kActivation;
      Formula f(&builder);
      const ValueId finite = IsFinite(id, f);
      RETURN_IF_ERROR(f.status());
      RETURN_IF_ERROR(
          Overwrite(alias.of, finite, id, alias.of, builder).status());
    }
  }
  return absl::OkStatus();
}

}  // namespace gpupool::engine
