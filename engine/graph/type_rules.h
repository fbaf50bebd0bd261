// The shape and type rules behind InferTypes, one function per op family.
// Internal to engine/graph; arity and attribute type were checked before.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "engine/graph/ops.h"

namespace gpupool::engine::type_rules {

using Inputs = absl::Span<const TensorType>;
using Result = absl::StatusOr<TensorTypes>;

Result Reshape(Op op, const Attributes& attributes, Inputs inputs);
Result LayoutConvert(Op op, const Attributes& attributes, Inputs inputs);
// One floating input, the same out.
Result Unary(Op op, const Attributes& attributes, Inputs inputs);
// Two floating inputs of the same type, the same out.
Result Binary(Op op, const Attributes& attributes, Inputs inputs);
Result ScaleShift(Op op, const Attributes& attributes, Inputs inputs);
Result Dropout(Op op, const Attributes& attributes, Inputs inputs);
Result ColumnSum(Op op, const Attributes& attributes, Inputs inputs);
Result MatMul(Op op, const Attributes& attributes, Inputs inputs);

Result Conv2d(Op op, const Attributes& attributes, Inputs inputs);
Result Conv2dInputGrad(Op op, const Attributes& attributes, Inputs inputs);
Result Conv2dWeightGrad(Op op, const Attributes& attributes, Inputs inputs);
Result MaxPool(Op op, const Attributes& attributes, Inputs inputs);
Result AvgPool(Op op, const Attributes& attributes, Inputs inputs);
Result PoolGrad(Op op, const Attributes& attributes, Inputs inputs);
Result GlobalAvgPool(Op op, const Attributes& attributes, Inputs inputs);
Result GlobalAvgPoolGrad(Op op, const Attributes& attributes, Inputs inputs);

Result BatchNormTraining(Op op, const Attributes& attributes, Inputs inputs);
Result BatchNormUpdate(Op op, const Attributes& attributes, Inputs inputs);
Result BatchNormInference(Op op, const Attributes& attributes, Inputs inputs);
Result BatchNormTrainingGrad(Op op, const Attributes& attributes,
                             Inputs inputs);
Result LayerNorm(Op op, const Attributes& attributes, Inputs inputs);
Result LayerNormGrad(Op op, const Attributes& attributes, Inputs inputs);
Result FoldBatchNorm(Op op, const Attributes& attributes, Inputs inputs);

Result CrossEntropy(Op op, const Attributes& attributes, Inputs inputs);
Result CrossEntropyGrad(Op op, const Attributes& attributes, Inputs inputs);
Result MeanSquaredError(Op op, const Attributes& attributes, Inputs inputs);
Result CorrectCount(Op op, const Attributes& attributes, Inputs inputs);
Result ClipCoefficient(Op op, const Attributes& attributes, Inputs inputs);
Result SgdStep(Op op, const Attributes& attributes, Inputs inputs);
Result AdamStep(Op op, const Attributes& attributes, Inputs inputs);

// InvalidArgument "<op>: <text>".
template <typename... Parts>
absl::Status Refuse(Op op, const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(OpName(op), ": ", parts...));
}

// "float32 [2, 3]"
std::string Text(const TensorType& type);
absl::Status CheckRank(Op op, const TensorType& type, int rank);
absl::Status CheckFloating(Op op, const TensorType& type);
// `what` names the input in the message.
absl::Status CheckType(Op op, absl::string_view what, const TensorType& type,
                       const TensorType& wanted);

// Elements per kernel, stride, padding and dilation are at most this.
inline constexpr int64_t kMaxWindow = int64_t{1} << 20;

// Cells of the output along one axis. InvalidArgument when a number is out of
// range or the window does not fit.
struct WindowAxis {
  int64_t input, kernel, stride, padding, dilation;
};
absl::StatusOr<int64_t> OutputCells(Op op, const WindowAxis& axis);

}  // namespace gpupool::engine::type_rules
