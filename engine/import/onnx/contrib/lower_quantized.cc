// Elementwise operators, pools and joins of 8-bit integers. Each converts its
// inputs to real numbers, computes, and rounds the result to codes again.
#include <algorithm>
#include <vector>

#include "engine/base/status_macros.h"
#include "engine/import/onnx/contrib/contrib_parts.h"
#include "engine/import/onnx/file/tensor_data.h"
#include "engine/import/onnx/graph/lowering_parts.h"
#include "engine/import/onnx/graph/lowerings.h"
#include "engine/import/onnx/operators/pools.h"
#include "engine/import/onnx/operators/quantisation.h"

namespace gpupool::engine::onnx_import {
namespace {

using Unary = UnaryFunction;
using Binary = BinaryFunction;

// The inputs of a quantised value. The zero point is optional.
struct CodedInput {
  int codes, scale, zero;
};

// Returns (codes - zero) * scale.
absl::StatusOr<ValueId> Real(NodeContext& ctx, const CodedInput& input) {
  ASSIGN_OR_RETURN(const ValueId codes, ctx.Input(input.codes));
  ASSIGN_OR_RETURN(const ValueId scale, OneNumber(ctx, input.scale, "scale"));
  ASSIGN_OR_RETURN(ValueId x, ctx.Cast(codes, ctx.dtype(scale)));
  if (ctx.has_input(input.zero)) {
    ASSIGN_OR_RETURN(const ValueId zeros,
                     OneNumber(ctx, input.zero, "zero point"));
    ASSIGN_OR_RETURN(const ValueId zero, ctx.Cast(zeros, ctx.dtype(scale)));
    ASSIGN_OR_RETURN(x, ctx.Binary(Binary::kSubtract, x, zero));
  }
  return ctx.Binary(Binary::kMultiply, x, scale);
}

// The inputs that describe the codes of the output. Without a zero point it
// has the element type of input `like`.
struct CodedOutput {
  int scale, zero, like;
};

absl::Status SetCodes(NodeContext& ctx, ValueId y, const CodedOutput& output) {
  Codes codes;
  ASSIGN_OR_RETURN(const ValueId scale, OneNumber(ctx, output.scale, "scale"));
  ASSIGN_OR_RETURN(codes.scale, ctx.Cast(scale, ctx.dtype(y)));
  if (ctx.has_input(output.zero)) {
    ASSIGN_OR_RETURN(const ValueId given, ctx.Input(output.zero));
    codes.element_type = CodeType(ctx, output.zero, ctx.dtype(given));
    ASSIGN_OR_RETURN(const ValueId zero,
                     OneNumber(ctx, output.zero, "zero point"));
    ASSIGN_OR_RETURN(codes.zero, ctx.Cast(zero, ctx.dtype(y)));
  } else {
    ASSIGN_OR_RETURN(const ValueId like, ctx.Input(output.like));
    codes.element_type = CodeType(ctx, output.like, ctx.dtype(like));
    codes.zero = ctx.Scalar(ctx.dtype(y), 0);
  }
  ASSIGN_OR_RETURN(const ValueId result, Quantized(ctx, y, codes));
  ctx.Set(0, result, static_cast<int>(codes.element_type));
  return absl::OkStatus();
}

template <Binary function>
absl::Status LowerBinary(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const ValueId a, Real(ctx, {0, 1, 2}));
  ASSIGN_OR_RETURN(const ValueId b, Real(ctx, {3, 4, 5}));
  ASSIGN_OR_RETURN(const ValueId y, ctx.Binary(function, a, b));
  return SetCodes(ctx, y, {.scale = 6, .zero = 7, .like = 0});
}

constexpr CodedInput kFirst{0, 1, 2};
constexpr CodedOutput kFirstOutput{.scale = 3, .zero = 4, .like = 0};

absl::Status LowerSigmoid(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const ValueId x, Real(ctx, kFirst));
  ASSIGN_OR_RETURN(const ValueId y, ctx.Emit(Op::kSigmoid, {x}));
  return SetCodes(ctx, y, kFirstOutput);
}

absl::Status LowerLeakyRelu(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const double alpha, ctx.Float("alpha", 0.01));
  ASSIGN_OR_RETURN(const ValueId x, Real(ctx, kFirst));
  ASSIGN_OR_RETURN(const ValueId y, ctx.Unary(Unary::kLeakyRelu, x, alpha));
  return SetCodes(ctx, y, kFirstOutput);
}

// Takes one axis from operator set 13 on, which an attribute names, and before
// it all dimensions from the axis on.
absl::Status LowerSoftmax(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const ValueId x, Real(ctx, kFirst));
  RETURN_IF_ERROR(RequireRank(ctx, x, 1));
  ASSIGN_OR_RETURN(const int64_t opset, ctx.Int("opset", 13));
  ASSIGN_OR_RETURN(const int64_t at, ctx.Int("axis", opset < 13 ? 1 : -1));
  ASSIGN_OR_RETURN(const int axis, ctx.Axis(at, ctx.rank(x)));
  const Shape shape = ctx.shape(x);
  ValueId y;
  if (opset < 13) {
    const int64_t dims[] = {Product(shape, 0, axis),
                            Product(shape, axis, shape.rank())};
    ASSIGN_OR_RETURN(const ValueId rows, ctx.Reshape(x, dims));
    ASSIGN_OR_RETURN(const ValueId part, ctx.Emit(Op::kSoftmax, {rows}));
    ASSIGN_OR_RETURN(y, ctx.Reshape(part, shape.dims()));
  } else {
    ASSIGN_OR_RETURN(const ValueId moved, MoveLast(ctx, x, axis));
    ASSIGN_OR_RETURN(const ValueId part, ctx.Emit(Op::kSoftmax, {moved}));
    ASSIGN_OR_RETURN(y, MoveFromLast(ctx, part, axis));
  }
  return SetCodes(ctx, y, kFirstOutput);
}

using Pool = absl::StatusOr<ValueId> (*)(NodeContext&, ValueId);

template <Pool pool>
absl::Status LowerPool(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const int64_t last, ctx.Int("channels_last", 0));
  ASSIGN_OR_RETURN(ValueId x, Real(ctx, kFirst));
  if (last != 0) {
    ASSIGN_OR_RETURN(x, ChannelsFirst(ctx, x));
  }
  ASSIGN_OR_RETURN(ValueId y, pool(ctx, x));
  if (last != 0) {
    ASSIGN_OR_RETURN(y, ChannelsLast(ctx, y));
  }
  return SetCodes(ctx, y, kFirstOutput);
}

// The inputs are the scale and the zero point of the output, and then codes,
// scale and zero point of each part.
absl::Status LowerConcat(NodeContext& ctx) {
  const int parts = (ctx.input_count() - 2) / 3;
  if (parts < 1 || ctx.input_count() != 2 + 3 * parts) {
    return ctx.Refuse("has ", ctx.input_count(),
                      " inputs and needs 2 and 3 more for each part");
  }
  ValueIds values;
  for (int i = 0; i < parts; ++i) {
    const int first = 2 + 3 * i;
    ASSIGN_OR_RETURN(values.emplace_back(),
                     Real(ctx, {first, first + 1, first + 2}));
  }
  ASSIGN_OR_RETURN(const int64_t at, ctx.Int("axis", 0));
  ASSIGN_OR_RETURN(const int axis, ctx.Axis(at, ctx.rank(values[0])));
  ASSIGN_OR_RETURN(const ValueId y, Concat(ctx, values, axis));
  return SetCodes(ctx, y, {.scale = 0, .zero = 1, .like = 2});
}

absl::Status LowerReduceMean(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const ValueId x, Real(ctx, kFirst));
  ASSIGN_OR_RETURN(const std::vector<int64_t> named, ctx.Ints("axes", {}));
  ASSIGN_OR_RETURN(const int64_t keep, ctx.Int("keepdims", 1));
  ASSIGN_OR_RETURN(std::vector<int> axes, NormalAxes(ctx, named, ctx.rank(x)));
  if (axes.empty()) axes = AllAxes(ctx.rank(x));
  ASSIGN_OR_RETURN(const ValueId y,
                   ctx.Reduce(ReduceFunction::kMean, x, axes, keep != 0));
  return SetCodes(ctx, y, kFirstOutput);
}

absl::Status LowerWhere(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const ValueId condition, ctx.Input(0));
  ASSIGN_OR_RETURN(const ValueId a, Real(ctx, {1, 2, 3}));
  ASSIGN_OR_RETURN(const ValueId b, Real(ctx, {4, 5, 6}));
  ASSIGN_OR_RETURN(const ValueId y, ctx.Emit(Op::kWhere, {condition, a, b}));
  return SetCodes(ctx, y, {.scale = 7, .zero = 8, .like = 1});
}

}  // namespace

absl::Span<const OperatorEntry> QuantizedOperators() {
  static constexpr absl::string_view kFamily = "quantisation";
  static const OperatorEntry rows[] = {
      {kMicrosoft, "QLinearAdd", kFamily, kShapes, LowerBinary<Binary::kAdd>},
      {kMicrosoft, "QLinearAveragePool", kFamily, kShapes,
       LowerPool<AveragePool>},
      {kMicrosoft, "QLinearConcat", kFamily, kShapes, LowerConcat},
      {kMicrosoft, "QLinearGlobalAveragePool", kFamily, kShapes,
       LowerPool<GlobalAveragePool>},
      {kMicrosoft, "QLinearLeakyRelu", kFamily, kShapes, LowerLeakyRelu},
      {kMicrosoft, "QLinearMul", kFamily, kShapes,
       LowerBinary<Binary::kMultiply>},
      {kMicrosoft, "QLinearReduceMean", kFamily, kShapes, LowerReduceMean},
      {kMicrosoft, "QLinearSigmoid", kFamily, kShapes, LowerSigmoid},
      {kMicrosoft, "QLinearSoftmax", kFamily, kShapes, LowerSoftmax},
      {kMicrosoft, "QLinearWhere", kFamily, kShapes, LowerWhere},
  };
  return rows;
}

}  // namespace gpupool::engine::onnx_import
