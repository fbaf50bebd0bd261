// Rules of views, elementwise ops and products.
#include "engine/base/status_macros.h"
#include "engine/graph/type_rules.h"

namespace gpupool::engine::type_rules {
namespace {

// The limit of a dropout mask: a Philox block gives four elements, and 32 bits
// of its number count blocks within a step.
constexpr int64_t kMaxDropoutElements = int64_t{1} << 34;

// Checks that ops over the last dimension have one.
absl::Status CheckRows(Op op, const TensorType& type) {
  const bool by_rows = op == Op::kSoftmax || op == Op::kLogSoftmax ||
                       op == Op::kSoftmaxGrad || op == Op::kLogSoftmaxGrad;
  if (!by_rows || type.shape.rank() > 0) return absl::OkStatus();
  return Refuse(op, "needs at least one dimension");
}

}  // namespace

std::string Text(const TensorType& type) {
  return absl::StrCat(DTypeName(type.dtype), " ", type.shape.ToString());
}

absl::Status CheckRank(Op op, const TensorType& type, int rank) {
  if (type.shape.rank() == rank) return absl::OkStatus();
  return Refuse(op, "needs ", rank, " dimensions but the input is ",
                type.shape.ToString());
}

absl::Status CheckFloating(Op op, const TensorType& type) {
  if (IsFloating(type.dtype)) return absl::OkStatus();
  return Refuse(op, "needs floating point numbers, not ", Text(type));
}

absl::Status CheckSameNumbers(Op op, const TensorType& a, const TensorType& b) {
  if (a.dtype == b.dtype) return absl::OkStatus();
  return Refuse(op, "needs operands of one type, not ", Text(a), " and ",
                Text(b));
}

DType StatisticsType(DType x) { return SizeOf(x) == 2 ? DType::kFloat32 : x; }

absl::Status CheckType(Op op, absl::string_view what, const TensorType& type,
                       const TensorType& wanted) {
  if (type == wanted) return absl::OkStatus();
  return Refuse(op, what, " is ", Text(type), " but must be ", Text(wanted));
}

Result Reshape(Op op, const Attributes& attributes, Inputs inputs) {
  const Shape& shape = std::get<ShapeAttributes>(attributes).shape;
  if (shape.elements() != inputs[0].shape.elements()) {
    return Refuse(op, inputs[0].shape.ToString(), " has ",
                  inputs[0].shape.elements(), " elements, ", shape.ToString(),
                  " has ", shape.elements());
  }
  return TensorTypes{{inputs[0].dtype, shape}};
}

Result LayoutConvert(Op op, const Attributes&, Inputs inputs) {
  RETURN_IF_ERROR(CheckRank(op, inputs[0], 4));
  return TensorTypes{inputs[0]};
}

Result Unary(Op op, const Attributes&, Inputs inputs) {
  RETURN_IF_ERROR(CheckFloating(op, inputs[0]));
  RETURN_IF_ERROR(CheckRows(op, inputs[0]));
  return TensorTypes{inputs[0]};
}

Result Binary(Op op, const Attributes&, Inputs inputs) {
  RETURN_IF_ERROR(CheckFloating(op, inputs[0]));
  if (inputs[0] != inputs[1]) {
    return Refuse(op, "inputs differ: ", Text(inputs[0]), " and ",
                  Text(inputs[1]));
  }
  RETURN_IF_ERROR(CheckRows(op, inputs[0]));
  return TensorTypes{inputs[0]};
}

Result ScaleShift(Op op, const Attributes&, Inputs inputs) {
  const TensorType& x = inputs[0];
  RETURN_IF_ERROR(CheckFloating(op, x));
  if (x.shape.rank() < 1) return Refuse(op, "needs a batch dimension");
  ASSIGN_OR_RETURN(const Shape feature,
                   Shape::Create(x.shape.dims().subspan(1)));
  RETURN_IF_ERROR(CheckType(op, "scale", inputs[1], {x.dtype, feature}));
  RETURN_IF_ERROR(CheckType(op, "shift", inputs[2], {x.dtype, feature}));
  return TensorTypes{x};
}

Result Dropout(Op op, const Attributes& attributes, Inputs inputs) {
  RETURN_IF_ERROR(CheckFloating(op, inputs[0]));
  RETURN_IF_ERROR(CheckType(op, "seed", inputs[1], {DType::kInt64, {}}));
  RETURN_IF_ERROR(CheckType(op, "step", inputs[2], {DType::kInt64, {}}));
  const double p = std::get<DropoutAttributes>(attributes).probability;
  if (!(p >= 0 && p < 1)) {
    return Refuse(op, "probability ", p, " must be at least 0 and below 1");
  }
  if (inputs[0].shape.elements() > kMaxDropoutElements) {
    return Refuse(op, inputs[0].shape.ToString(), " has more than ",
                  kMaxDropoutElements, " elements");
  }
  return TensorTypes{inputs[0]};
}

Result ColumnSum(Op op, const Attributes&, Inputs inputs) {
  RETURN_IF_ERROR(CheckFloating(op, inputs[0]));
  RETURN_IF_ERROR(CheckRank(op, inputs[0], 2));
  return TensorTypes{{inputs[0].dtype, {inputs[0].shape[1]}}};
}

Result MatMul(Op op, const Attributes& attributes, Inputs inputs) {
  const auto& matmul = std::get<MatMulAttributes>(attributes);
  for (const TensorType& operand : inputs.first(2)) {
    RETURN_IF_ERROR(CheckFloating(op, operand));
    RETURN_IF_ERROR(CheckRank(op, operand, 2));
  }
  RETURN_IF_ERROR(CheckSameNumbers(op, inputs[0], inputs[1]));
  const Shape& a = inputs[0].shape;
  const Shape& b = inputs[1].shape;
  if (a[matmul.transpose_a ? 0 : 1] != b[matmul.transpose_b ? 1 : 0]) {
    return Refuse(op, "inner dimensions of ", a.ToString(),
                  matmul.transpose_a ? " transposed" : "", " and ",
                  b.ToString(), matmul.transpose_b ? " transposed" : "",
                  " differ");
  }
  const int64_t columns = b[matmul.transpose_b ? 0 : 1];
  const int64_t dims[] = {a[matmul.transpose_a ? 1 : 0], columns};
  ASSIGN_OR_RETURN(const Shape shape, Shape::Create(dims));
  const TensorType y{inputs[0].dtype, shape};
  const Epilogue& epilogue = matmul.epilogue;
  // Kernels find bias and residual by these flags, so they must be exact.
  if (inputs.size() != 2u + epilogue.bias + epilogue.residual) {
    return Refuse(op, "has ", inputs.size(), " inputs, which its epilogue ",
                  "does not explain");
  }
  if (epilogue.bias) {
    RETURN_IF_ERROR(CheckType(op, "bias", inputs[2], {y.dtype, {columns}}));
  }
  if (epilogue.residual) {
    RETURN_IF_ERROR(CheckType(op, "residual", inputs.back(), y));
  }
  return TensorTypes{y};
}

}  // namespace gpupool::engine::type_rules
