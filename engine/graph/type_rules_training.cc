// Rules of losses, evaluation, norms of gradients and sums over ranks.
#include "engine/base/status_macros.h"
#include "engine/graph/type_rules.h"

namespace gpupool::engine::type_rules {
namespace {

const TensorType kInt64Scalar{DType::kInt64, {}};

// Checks logits [batch, classes] and labels [batch].
absl::Status CheckLabels(Op op, Inputs inputs) {
  RETURN_IF_ERROR(CheckFloating(op, inputs[0]));
  if (inputs[0].shape.rank() != 2) {
    return Refuse(op, "needs logits [batch, classes], not ",
                  inputs[0].shape.ToString());
  }
  const TensorType& labels = inputs[1];
  if (labels.dtype != DType::kInt32 && labels.dtype != DType::kInt64) {
    return Refuse(op, "labels are ", DTypeName(labels.dtype),
                  " but must be int32 or int64");
  }
  return CheckType(op, "labels", labels, {labels.dtype, {inputs[0].shape[0]}});
}

absl::Status CheckRowCount(Op op, Inputs inputs) {
  if (inputs.size() < 3) return absl::OkStatus();
  return CheckType(op, "row_count", inputs[2], kInt64Scalar);
}

absl::Status CheckSmoothing(Op op, const Attributes& attributes) {
  const double smoothing = std::get<LossAttributes>(attributes).label_smoothing;
  if (smoothing >= 0 && smoothing < 1) return absl::OkStatus();
  return Refuse(op, "label smoothing ", smoothing,
                " must be at least 0 and below 1");
}

}  // namespace

Result CrossEntropy(Op op, const Attributes& attributes, Inputs inputs) {
  RETURN_IF_ERROR(CheckLabels(op, inputs));
  RETURN_IF_ERROR(CheckRowCount(op, inputs));
  RETURN_IF_ERROR(CheckSmoothing(op, attributes));
  return TensorTypes{{inputs[0].dtype, {}}};
}

Result CrossEntropyGrad(Op op, const Attributes& attributes, Inputs inputs) {
  RETURN_IF_ERROR(CheckLabels(op, inputs));
  RETURN_IF_ERROR(CheckSmoothing(op, attributes));
  return TensorTypes{inputs[0]};
}

Result MeanSquaredError(Op op, const Attributes&, Inputs inputs) {
  RETURN_IF_ERROR(CheckFloating(op, inputs[0]));
  if (inputs[0].shape.rank() < 1) return Refuse(op, "needs a batch dimension");
  RETURN_IF_ERROR(CheckType(op, "target", inputs[1], inputs[0]));
  RETURN_IF_ERROR(CheckRowCount(op, inputs));
  return TensorTypes{{inputs[0].dtype, {}}};
}

Result CorrectCount(Op op, const Attributes&, Inputs inputs) {
  RETURN_IF_ERROR(CheckLabels(op, inputs));
  RETURN_IF_ERROR(CheckRowCount(op, inputs));
  return TensorTypes{kInt64Scalar};
}

Result GlobalNorm(Op op, const Attributes&, Inputs inputs) {
  for (const TensorType& gradient : inputs) {
    RETURN_IF_ERROR(CheckFloating(op, gradient));
  }
  return TensorTypes{{DType::kFloat32, {}}};
}

// Returns a flat value of all elements of the gradients.
Result AllReduceStart(Op op, const Attributes& attributes, Inputs inputs) {
  const auto& all_reduce = std::get<AllReduceAttributes>(attributes);
  if (all_reduce.ranks < 1) {
    return Refuse(op, "ranks ", all_reduce.ranks, " must be at least 1");
  }
  int64_t elements = 0;
  for (const TensorType& gradient : inputs) {
    RETURN_IF_ERROR(
        CheckType(op, "gradient", gradient, {DType::kFloat32, gradient.shape}));
    elements += gradient.shape.elements();
  }
  ASSIGN_OR_RETURN(Shape flat, Shape::Create({elements}));
  return TensorTypes{{DType::kFloat32, std::move(flat)}};
}

// Checks that the flats have exactly the elements of the outputs.
Result AllReduceWait(Op op, const Attributes& attributes, Inputs inputs) {
  const auto& all_reduce = std::get<AllReduceAttributes>(attributes);
  int64_t given = 0;
  for (const TensorType& flat : inputs) {
    RETURN_IF_ERROR(CheckRank(op, flat, 1));
    RETURN_IF_ERROR(CheckType(op, "flat", flat, {DType::kFloat32, flat.shape}));
    given += flat.shape.elements();
  }
  TensorTypes outputs;
  int64_t taken = 0;
  for (const Shape& shape : all_reduce.shapes) {
    taken += shape.elements();
    outputs.push_back({DType::kFloat32, shape});
  }
  if (given != taken) {
    return Refuse(op, "the flats have ", given, " elements, the outputs ",
                  taken);
  }
  return outputs;
}

}  // namespace gpupool::engine::type_rules
