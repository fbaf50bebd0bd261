// The shape and type rules of InferTypes, one function for each op family.
// Internal to engine/graph. Arity and attribute type are checked before.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "engine/graph/ops.h"

namespace gpupool::engine::type_rules {

using Inputs = absl::Span<const TensorType>;
using Result = absl::StatusOr<TensorTypes>;

// The rules of the op table's column `type_rule`. Unary takes one floating
// input and Binary two of the same type; both give the same out. OptimizerStep
// takes parameter, gradient, learning rate, step, the optimizer's states and,
// where it clips, the coefficient.
#define GPUPOOL_OP(op, name, inputs_taken, outputs_given, attributes_carried, \
                   type_rule, ...)                                            \
  Result type_rule(Op, const Attributes& attributes, Inputs inputs);
#include "engine/graph/op_table.inc"

// Returns INVALID_ARGUMENT "<op>: <text>".
template <typename... Parts>
absl::Status Refuse(Op op, const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(OpName(op), ": ", parts...));
}

// Returns "float32 [2, 3]".
std::string Text(const TensorType& type);
absl::Status CheckRank(Op op, const TensorType& type, int rank);
absl::Status CheckFloating(Op op, const TensorType& type);
// Checks the operands of a product, since kernels read both as the first's
// type.
absl::Status CheckSameNumbers(Op op, const TensorType& a, const TensorType& b);
// Returns the type in which statistics of x are kept: float32 for 16-bit
// numbers, else the type of x.
DType StatisticsType(DType x);
// Checks that `type` is `wanted`; `what` names the input in the message.
absl::Status CheckType(Op op, absl::string_view what, const TensorType& type,
                       const TensorType& wanted);

}  // namespace gpupool::engine::type_rules
