#include "engine/graph/fused.h"

#include <type_traits>
#include <utility>

#include "engine/base/check.h"
#include "engine/base/status_macros.h"
#include "engine/graph/broadcast.h"
#include "engine/graph/type_rules.h"

namespace gpupool::engine {

using type_rules::Refuse;

bool MayBeFusedStep(Op op) { return Info(op).fusable; }

Attributes StepAttributes(const FusedStep& step) {
  return std::visit([](const auto& a) { return Attributes(a); },
                    step.attributes);
}

FusedStep MakeFusedStep(Op op, const Attributes& attributes,
                        std::vector<int> operands) {
  GPUPOOL_CHECK(MayBeFusedStep(op));
  FusedStep step{op, {}, std::move(operands)};
  std::visit(
      [&step](const auto& a) {
        using T = std::decay_t<decltype(a)>;
        // Attributes has more alternatives than a step may have.
        if constexpr (std::is_constructible_v<decltype(step.attributes), T>) {
          step.attributes = a;
        } else {
          GPUPOOL_CHECK(false);
        }
      },
      attributes);
  return step;
}

absl::StatusOr<std::vector<DType>> FusedOperandTypes(
    const FusedAttributes& fused, absl::Span<const TensorType> inputs) {
  if (fused.steps.empty() || fused.results.empty()) {
    return Refuse(Op::kFused, "needs at least one step and one result");
  }
  std::vector<DType> dtypes;
  for (const TensorType& input : inputs) {
    if (!BroadcastsTo(input.shape, fused.shape)) {
      return Refuse(Op::kFused, "input ", input.shape.ToString(),
                    " does not broadcast to ", fused.shape.ToString());
    }
    dtypes.push_back(input.dtype);
  }
  // A step may use only earlier operands, so the types are known in order.
  for (const FusedStep& step : fused.steps) {
    if (!MayBeFusedStep(step.op)) {
      return Refuse(Op::kFused, OpName(step.op), " cannot be a step");
    }
    TensorTypes operands;
    for (int operand : step.operands) {
      if (operand < 0 || static_cast<size_t>(operand) >= dtypes.size()) {
        return Refuse(Op::kFused, "operand ", operand, " of a step ",
                      OpName(step.op), " does not stand before it");
      }
      operands.push_back({dtypes[static_cast<size_t>(operand)], fused.shape});
    }
    ASSIGN_OR_RETURN(const TensorTypes results,
                     InferTypes(step.op, StepAttributes(step), operands));
    dtypes.push_back(results[0].dtype);
  }
  for (int result : fused.results) {
    // An input as a result would only be a copy.
    if (result < static_cast<int>(inputs.size()) ||
        static_cast<size_t>(result) >= dtypes.size()) {
      return Refuse(Op::kFused, "result ", result, " is not a step's");
    }
  }
  return dtypes;
}

}  // namespace gpupool::engine
