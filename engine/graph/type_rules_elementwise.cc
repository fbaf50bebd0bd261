// Rules of elementwise ops with broadcasting, reductions and casts.
#include <algorithm>
#include <cmath>
#include <vector>

#include "engine/base/status_macros.h"
#include "engine/graph/broadcast.h"
#include "engine/graph/fused.h"
#include "engine/graph/type_rules.h"

namespace gpupool::engine::type_rules {
namespace {

absl::Status CheckNumbers(Op op, const TensorType& type) {
  if (type.dtype != DType::kBool) return absl::OkStatus();
  return Refuse(op, "needs numbers, not ", Text(type));
}

absl::Status CheckBool(Op op, const TensorType& type) {
  if (type.dtype == DType::kBool) return absl::OkStatus();
  return Refuse(op, "needs bool, not ", Text(type));
}

absl::Status CheckAxis(Op op, int axis, const Shape& shape) {
  if (axis >= 0 && axis < shape.rank()) return absl::OkStatus();
  return Refuse(op, "axis ", axis, " is not an axis of ", shape.ToString());
}

absl::StatusOr<Shape> Broadcast(Op op, const Shape& a, const Shape& b) {
  absl::StatusOr<Shape> shape = BroadcastShapes(a, b);
  if (!shape.ok()) return Refuse(op, shape.status().message());
  return shape;
}

// The element types that a function takes and returns.
enum class Domain : uint8_t { kNumbers, kFloating, kFloatingToBool, kBool };

Domain DomainOf(UnaryFunction function) {
  switch (function) {
    case UnaryFunction::kAbs:
    case UnaryFunction::kNegate:
    case UnaryFunction::kSign:
    case UnaryFunction::kClip:
      return Domain::kNumbers;
    case UnaryFunction::kIsNan:
    case UnaryFunction::kIsInf:
      return Domain::kFloatingToBool;
    case UnaryFunction::kNot:
      return Domain::kBool;
    default:
      return Domain::kFloating;
  }
}

// Returns the element type of f(a, b) for operands of type `type`.
absl::StatusOr<DType> BinaryResult(Op op, BinaryFunction function,
                                   const TensorType& type) {
  switch (function) {
    case BinaryFunction::kAdd:
    case BinaryFunction::kSubtract:
    case BinaryFunction::kMultiply:
    case BinaryFunction::kDivide:
    case BinaryFunction::kPower:
    case BinaryFunction::kMinimum:
    case BinaryFunction::kMaximum:
    case BinaryFunction::kModulo:
    case BinaryFunction::kRemainder:
      RETURN_IF_ERROR(CheckNumbers(op, type));
      return type.dtype;
    case BinaryFunction::kShiftLeft:
    case BinaryFunction::kShiftRight:
      RETURN_IF_ERROR(CheckNumbers(op, type));
      if (IsFloating(type.dtype)) {
        return Refuse(op, "shifts integers, not ", Text(type));
      }
      return type.dtype;
    case BinaryFunction::kAnd:
    case BinaryFunction::kOr:
    case BinaryFunction::kXor:
      if (IsFloating(type.dtype)) {
        return Refuse(op, "needs bool or integers, not ", Text(type));
      }
      return type.dtype;
    case BinaryFunction::kEqual:
    case BinaryFunction::kLess:
    case BinaryFunction::kLessOrEqual:
    case BinaryFunction::kGreater:
    case BinaryFunction::kGreaterOrEqual:
      return DType::kBool;
  }
  return Refuse(op, "has an unknown function");
}

// Returns the shape without the axes, or with 1 in their place.
absl::StatusOr<Shape> Without(const Shape& shape, absl::Span<const int> axes,
                              bool keep_dims) {
  std::vector<int64_t> dims;
  for (int i = 0; i < shape.rank(); ++i) {
    if (std::find(axes.begin(), axes.end(), i) == axes.end()) {
      dims.push_back(shape[i]);
    } else if (keep_dims) {
      dims.push_back(1);
    }
  }
  return Shape::CreateMaybeEmpty(dims);
}

}  // namespace

Result UnaryOp(Op op, const Attributes& attributes, Inputs inputs) {
  const auto& unary = std::get<UnaryAttributes>(attributes);
  const TensorType& x = inputs[0];
  // NaN differs from itself, so equal nodes would not be equal.
  if (std::isnan(unary.alpha) || std::isnan(unary.beta)) {
    return Refuse(op, "parameters must be numbers, not NaN");
  }
  switch (DomainOf(unary.function)) {
    case Domain::kNumbers:
      RETURN_IF_ERROR(CheckNumbers(op, x));
      return TensorTypes{x};
    case Domain::kFloating:
      RETURN_IF_ERROR(CheckFloating(op, x));
      // celu divides by alpha.
      if (unary.function == UnaryFunction::kCelu && unary.alpha == 0) {
        return Refuse(op, "alpha of celu must not be 0");
      }
      return TensorTypes{x};
    case Domain::kFloatingToBool:
      RETURN_IF_ERROR(CheckFloating(op, x));
      return TensorTypes{{DType::kBool, x.shape}};
    case Domain::kBool:
      RETURN_IF_ERROR(CheckBool(op, x));
      return TensorTypes{x};
  }
  return Refuse(op, "has an unknown function");
}

// Checks dy, x -> dx. The forward rule checks the function and x.
Result UnaryGrad(Op op, const Attributes& attributes, Inputs inputs) {
  RETURN_IF_ERROR(UnaryOp(op, attributes, inputs.subspan(1)).status());
  RETURN_IF_ERROR(CheckFloating(op, inputs[1]));
  RETURN_IF_ERROR(CheckType(op, "dy", inputs[0], inputs[1]));
  const auto function = std::get<UnaryAttributes>(attributes).function;
  if (DomainOf(function) == Domain::kFloatingToBool) {
    return Refuse(op, "the function has no derivative");
  }
  return TensorTypes{inputs[1]};
}

Result BinaryOp(Op op, const Attributes& attributes, Inputs inputs) {
  if (inputs[0].dtype != inputs[1].dtype) {
    return Refuse(op, "element types differ: ", Text(inputs[0]), " and ",
                  Text(inputs[1]));
  }
  const auto& binary = std::get<BinaryAttributes>(attributes);
  ASSIGN_OR_RETURN(const DType dtype,
                   BinaryResult(op, binary.function, inputs[0]));
  ASSIGN_OR_RETURN(const Shape shape,
                   Broadcast(op, inputs[0].shape, inputs[1].shape));
  return TensorTypes{{dtype, shape}};
}

Result Where(Op op, const Attributes&, Inputs inputs) {
  RETURN_IF_ERROR(CheckBool(op, inputs[0]));
  if (inputs[1].dtype != inputs[2].dtype) {
    return Refuse(op, "element types differ: ", Text(inputs[1]), " and ",
                  Text(inputs[2]));
  }
  ASSIGN_OR_RETURN(const Shape values,
                   Broadcast(op, inputs[1].shape, inputs[2].shape));
  ASSIGN_OR_RETURN(const Shape shape, Broadcast(op, inputs[0].shape, values));
  return TensorTypes{{inputs[1].dtype, shape}};
}

Result Cast(Op, const Attributes& attributes, Inputs inputs) {
  return TensorTypes{
      {std::get<CastAttributes>(attributes).dtype, inputs[0].shape}};
}

Result Fused(Op, const Attributes& attributes, Inputs inputs) {
  const auto& fused = std::get<FusedAttributes>(attributes);
  ASSIGN_OR_RETURN(const std::vector<DType> dtypes,
                   FusedOperandTypes(fused, inputs));
  TensorTypes outputs;
  for (int result : fused.results) {
    outputs.push_back({dtypes[static_cast<size_t>(result)], fused.shape});
  }
  return outputs;
}

Result Reduce(Op op, const Attributes& attributes, Inputs inputs) {
  const auto& reduce = std::get<ReduceAttributes>(attributes);
  const TensorType& x = inputs[0];
  if (reduce.function != ReduceFunction::kMax &&
      reduce.function != ReduceFunction::kMin) {
    RETURN_IF_ERROR(CheckNumbers(op, x));
  }
  if (reduce.axes.empty()) return Refuse(op, "needs at least one axis");
  int previous = -1;
  for (int axis : reduce.axes) {
    RETURN_IF_ERROR(CheckAxis(op, axis, x.shape));
    if (axis <= previous) {
      return Refuse(op, "axes must rise but ", axis, " follows ", previous);
    }
    previous = axis;
  }
  // The mean of no numbers is NaN, which integers do not have.
  if (reduce.function == ReduceFunction::kMean && !IsFloating(x.dtype) &&
      x.shape.elements() == 0) {
    return Refuse(op, "the mean of no integers, ", Text(x), ", is undefined");
  }
  ASSIGN_OR_RETURN(const Shape shape,
                   Without(x.shape, reduce.axes, reduce.keep_dims));
  return TensorTypes{{x.dtype, shape}};
}

Result ArgReduce(Op op, const Attributes& attributes, Inputs inputs) {
  const auto& reduce = std::get<ArgReduceAttributes>(attributes);
  const Shape& x = inputs[0].shape;
  RETURN_IF_ERROR(CheckAxis(op, reduce.axis, x));
  // An empty axis has no position to return.
  if (x[reduce.axis] == 0) {
    return Refuse(op, "axis ", reduce.axis, " of ", x.ToString(), " is empty");
  }
  ASSIGN_OR_RETURN(const Shape shape,
                   Without(x, {reduce.axis}, reduce.keep_dims));
  return TensorTypes{{DType::kInt64, shape}};
}

Result CumSum(Op op, const Attributes& attributes, Inputs inputs) {
  RETURN_IF_ERROR(CheckNumbers(op, inputs[0]));
  RETURN_IF_ERROR(CheckAxis(op, std::get<CumSumAttributes>(attributes).axis,
                            inputs[0].shape));
  return TensorTypes{inputs[0]};
}

Result Broadcast(Op op, const Attributes& attributes, Inputs inputs) {
  const Shape& shape = std::get<ShapeAttributes>(attributes).shape;
  if (!BroadcastsTo(inputs[0].shape, shape)) {
    return Refuse(op, inputs[0].shape.ToString(), " does not broadcast to ",
                  shape.ToString());
  }
  return TensorTypes{{inputs[0].dtype, shape}};
}

}  // namespace gpupool::engine::type_rules
