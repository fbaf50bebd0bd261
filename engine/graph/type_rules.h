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
Result GlobalNorm(Op op, const Attributes& attributes, Inputs inputs);
Result AllReduceStart(Op op, const Attributes& attributes, Inputs inputs);
Result AllReduceWait(Op op, const Attributes& attributes, Inputs inputs);

// Core ops: type_rules_elementwise.cc, type_rules_movement.cc,
// type_rules_products.cc, type_rules_training.cc.
Result UnaryOp(Op op, const Attributes& attributes, Inputs inputs);
Result BinaryOp(Op op, const Attributes& attributes, Inputs inputs);
Result Where(Op op, const Attributes& attributes, Inputs inputs);
Result Cast(Op op, const Attributes& attributes, Inputs inputs);
Result Fused(Op op, const Attributes& attributes, Inputs inputs);
Result Reduce(Op op, const Attributes& attributes, Inputs inputs);
Result ArgReduce(Op op, const Attributes& attributes, Inputs inputs);
Result CumSum(Op op, const Attributes& attributes, Inputs inputs);
Result Broadcast(Op op, const Attributes& attributes, Inputs inputs);
Result UnaryGrad(Op op, const Attributes& attributes, Inputs inputs);

Result Transpose(Op op, const Attributes& attributes, Inputs inputs);
Result Slice(Op op, const Attributes& attributes, Inputs inputs);
Result SliceGrad(Op op, const Attributes& attributes, Inputs inputs);
Result Pad(Op op, const Attributes& attributes, Inputs inputs);
Result PadGrad(Op op, const Attributes& attributes, Inputs inputs);
Result Concat(Op op, const Attributes& attributes, Inputs inputs);
Result Gather(Op op, const Attributes& attributes, Inputs inputs);
Result GatherGrad(Op op, const Attributes& attributes, Inputs inputs);
Result GatherElements(Op op, const Attributes& attributes, Inputs inputs);
Result GatherNd(Op op, const Attributes& attributes, Inputs inputs);
Result ScatterElements(Op op, const Attributes& attributes, Inputs inputs);
Result ScatterNd(Op op, const Attributes& attributes, Inputs inputs);
Result TopK(Op op, const Attributes& attributes, Inputs inputs);
Result Random(Op op, const Attributes& attributes, Inputs inputs);
Result Resize(Op op, const Attributes& attributes, Inputs inputs);
Result ResizeGrad(Op op, const Attributes& attributes, Inputs inputs);

Result BatchMatMul(Op op, const Attributes& attributes, Inputs inputs);
Result Attention(Op op, const Attributes& attributes, Inputs inputs);
Result AttentionGrad(Op op, const Attributes& attributes, Inputs inputs);
Result Lrn(Op op, const Attributes& attributes, Inputs inputs);
Result LrnGrad(Op op, const Attributes& attributes, Inputs inputs);

// Parameter, gradient, learning rate, step, the optimizer's states and, where
// it clips, the coefficient.
Result OptimizerStep(Op op, const Attributes& attributes, Inputs inputs);
Result EmaUpdate(Op op, const Attributes& attributes, Inputs inputs);

// InvalidArgument "<op>: <text>".
template <typename... Parts>
absl::Status Refuse(Op op, const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(OpName(op), ": ", parts...));
}

// "float32 [2, 3]"
std::string Text(const TensorType& type);
absl::Status CheckRank(Op op, const TensorType& type, int rank);
absl::Status CheckFloating(Op op, const TensorType& type);
// The type in which statistics of x are kept: float32 beside 16-bit numbers,
// else that of x.
DType StatisticsType(DType x);
// `what` names the input in the message.
absl::Status CheckType(Op op, absl::string_view what, const TensorType& type,
                       const TensorType& wanted);

}  // namespace gpupool::engine::type_rules
