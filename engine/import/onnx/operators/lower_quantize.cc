// Lowers conversions to and from quantised numbers, and products and
// convolutions of 8-bit integers. Each product first subtracts the zero points
// from its operands.
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "engine/base/status_macros.h"
#include "engine/import/onnx/file/tensor_data.h"
#include "engine/import/onnx/graph/lowering_parts.h"
#include "engine/import/onnx/graph/lowerings.h"
#include "engine/import/onnx/operators/narrow_casts.h"
#include "engine/import/onnx/operators/products.h"
#include "engine/import/onnx/operators/quantisation.h"

namespace gpupool::engine::onnx_import {
namespace {

using Unary = UnaryFunction;
using Binary = BinaryFunction;

// The layout of the scales and zero points of a value.
struct Granularity {
  Shape shape;        // of the value
  int axis = 0;       // of a list of scales, or of the blocks
  int64_t block = 0;  // cells of the axis that share a scale; 0: no blocks
};

absl::StatusOr<Granularity> ReadGranularity(const NodeContext& ctx, ValueId x) {
  Granularity result{.shape = ctx.shape(x)};
  const int rank = result.shape.rank();
  ASSIGN_OR_RETURN(result.block, ctx.Int("block_size", 0));
  if (result.block < 0) {
    return ctx.Refuse("block_size ", result.block, " must be at least 0");
  }
  ASSIGN_OR_RETURN(const int64_t axis, ctx.Int("axis", 1));
  // A single scale needs no axis, and the input may lack the default axis.
  if (axis >= -rank && axis < rank) {
    ASSIGN_OR_RETURN(result.axis, ctx.Axis(axis, rank));
  }
  return result;
}

// Returns scales or zero points so that they broadcast to the value. One for
// each block is repeated over the cells of its block.
absl::StatusOr<ValueId> Spread(NodeContext& ctx, ValueId x,
                               const Granularity& of) {
  const int rank = of.shape.rank();
  if (of.block == 0) return AlongAxis(ctx, x, rank, of.axis);
  std::vector<int64_t> expected = Dims(of.shape);
  if (rank == 0) return ctx.Refuse("block_size needs an axis");
  const auto axis = static_cast<size_t>(of.axis);
  const int64_t cells = expected[axis];
  const int64_t blocks = cells / of.block + (cells % of.block != 0 ? 1 : 0);
  expected[axis] = blocks;
  if (Dims(ctx.shape(x)) != expected) {
    ASSIGN_OR_RETURN(const Shape wanted, MakeShape(ctx, expected));
    return ctx.Refuse("scales and zero points are ", ctx.shape(x).ToString(),
                      " and must be ", wanted.ToString(), " for blocks of ",
                      of.block, " along axis ", of.axis);
  }
  const int64_t block = std::min(of.block, cells);
  std::vector<int64_t> apart = expected;
  apart.insert(apart.begin() + of.axis + 1, 1);
  ASSIGN_OR_RETURN(const ValueId one, ctx.Reshape(x, apart));
  apart[axis + 1] = block;
  ASSIGN_OR_RETURN(const Shape repeated, MakeShape(ctx, apart));
  ASSIGN_OR_RETURN(const ValueId many, ctx.BroadcastTo(one, repeated));
  expected[axis] = blocks * block;
  ASSIGN_OR_RETURN(const ValueId joined, ctx.Reshape(many, expected));
  return SliceAxis(ctx, joined, {.axis = of.axis, .size = cells});
}

struct Range {
  double low, high;
};

// Returns the range of codes of an element type in the file.
absl::StatusOr<Range> RangeOf(const NodeContext& ctx, int64_t element_type) {
  const NarrowType* narrow = FindNarrowType(element_type);
  if (narrow != nullptr && !narrow->is_float()) {
    const double count = 1 << narrow->bits;
    const double low = narrow->is_signed ? -count / 2 : 0;
    return Range{low, low + count - 1};
  }
  switch (element_type) {
    case onnx::TensorProto::UINT8:
      return Range{0, 255};
    case onnx::TensorProto::INT8:
      return Range{-128, 127};
    case onnx::TensorProto::UINT16:
      return Range{0, 65535};
    case onnx::TensorProto::INT16:
      return Range{-32768, 32767};
    case onnx::TensorProto::INT32:
      return Range{-2147483648.0, 2147483647.0};
    default:
      return ctx.Unsupported("numbers quantised to ",
                             OnnxTypeName(static_cast<int>(element_type)),
                             " are not");
  }
}

// Adds the codes of x for a narrow floating type, which are not rounded to
// whole numbers.
absl::StatusOr<ValueId> QuantizedToReal(NodeContext& ctx, ValueId x,
                                        const Codes& codes,
                                        const NarrowType& type) {
  ASSIGN_OR_RETURN(const int64_t saturate, ctx.Int("saturate", 1));
  ASSIGN_OR_RETURN(const ValueId ratio,
                   ctx.Binary(Binary::kDivide, x, codes.scale));
  ASSIGN_OR_RETURN(const ValueId shifted,
                   ctx.Binary(Binary::kAdd, ratio, codes.zero));
  return CastToNarrow(ctx, shifted, type, saturate != 0);
}

absl::Status LowerQuantize(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const ValueId given, ctx.Input(0));
  ASSIGN_OR_RETURN(const Granularity granularity, ReadGranularity(ctx, given));
  ASSIGN_OR_RETURN(const ValueId scales, ctx.Input(1));
  ASSIGN_OR_RETURN(const ValueId scale, Spread(ctx, scales, granularity));
  ASSIGN_OR_RETURN(const ValueId x, ctx.Cast(given, ctx.dtype(scale)));
  ASSIGN_OR_RETURN(int64_t element_type, ctx.Int("output_dtype", 0));
  if (element_type == 0) element_type = onnx::TensorProto::UINT8;
  ValueId zero = ctx.Scalar(ctx.dtype(scale), 0);
  if (ctx.has_input(2)) {
    ASSIGN_OR_RETURN(const ValueId zeros, ctx.Input(2));
    // The zero point overrides output_dtype.
    element_type = CodeType(ctx, 2, ctx.dtype(zeros));
    ASSIGN_OR_RETURN(const ValueId typed, ctx.Cast(zeros, ctx.dtype(scale)));
    ASSIGN_OR_RETURN(zero, Spread(ctx, typed, granularity));
  }
  ASSIGN_OR_RETURN(
      const ValueId y,
      Quantized(ctx, x,
                {.scale = scale, .zero = zero, .element_type = element_type}));
  ctx.Set(0, y, static_cast<int>(element_type));
  return absl::OkStatus();
}

absl::Status LowerDequantize(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const ValueId given, ctx.Input(0));
  ASSIGN_OR_RETURN(const Granularity granularity, ReadGranularity(ctx, given));
  ASSIGN_OR_RETURN(const ValueId scales, ctx.Input(1));
  ASSIGN_OR_RETURN(const ValueId scale, Spread(ctx, scales, granularity));
  ASSIGN_OR_RETURN(ValueId x, ctx.Cast(given, ctx.dtype(scale)));
  if (ctx.has_input(2)) {
    ASSIGN_OR_RETURN(const ValueId zeros, ctx.Input(2));
    ASSIGN_OR_RETURN(const ValueId typed, ctx.Cast(zeros, ctx.dtype(scale)));
    ASSIGN_OR_RETURN(const ValueId zero, Spread(ctx, typed, granularity));
    ASSIGN_OR_RETURN(x, ctx.Binary(Binary::kSubtract, x, zero));
  }
  // Passes look for the codes of a convolution's weights.
  if (ctx.rank(x) == 4) {
    return Finish(ctx, ctx.EmitUnfolded(Op::kBinary, ValueIds{x, scale},
                                        BinaryAttributes{Binary::kMultiply}));
  }
  return Finish(ctx, ctx.Binary(Binary::kMultiply, x, scale));
}

// Adds the extreme of x and 0. The range must contain 0, which needs an exact
// code.
absl::StatusOr<ValueId> Extreme(NodeContext& ctx, ValueId x,
                                ReduceFunction function) {
  ValueId y = x;
  if (ctx.rank(x) > 0) {
    ASSIGN_OR_RETURN(y, ctx.Reduce(function, x, AllAxes(ctx.rank(x)), false));
  }
  return ctx.Binary(
      function == ReduceFunction::kMax ? Binary::kMaximum : Binary::kMinimum, y,
      0.0);
}

absl::Status LowerDynamicQuantize(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const ValueId x, ctx.Input(0));
  ASSIGN_OR_RETURN(const DynamicCodes codes, QuantizedByRange(ctx, x));
  ASSIGN_OR_RETURN(const ValueId zero_point,
                   ctx.Cast(codes.zero, DType::kUint8));
  ctx.Set(0, codes.y);
  ctx.Set(1, codes.scale);
  ctx.Set(2, zero_point);
  return absl::OkStatus();
}

// The zero point of an operand: one number, or one per row of the left matrix,
// per column of the right matrix, or per filter.
struct ZeroAxis {
  int input = -1;  // input with the zero point
  int axis = 0;    // negative: from the end
};

// Returns the input, cast to `dtype`, minus its zero point.
absl::StatusOr<ValueId> Centred(NodeContext& ctx, int input,
                                const ZeroAxis& zero_axis, DType dtype) {
  ASSIGN_OR_RETURN(const ValueId given, ctx.Input(input));
  ASSIGN_OR_RETURN(const ValueId x, ctx.Cast(given, dtype));
  if (!ctx.has_input(zero_axis.input)) return x;
  const int rank = ctx.rank(x);
  ASSIGN_OR_RETURN(const ValueId zeros, ctx.Input(zero_axis.input));
  ASSIGN_OR_RETURN(const ValueId typed, ctx.Cast(zeros, dtype));
  // A zero point of a higher rank broadcasts as it is.
  if (ctx.rank(typed) > 1) return ctx.Binary(Binary::kSubtract, x, typed);
  int axis = 0;
  if (ctx.shape(typed).elements() > 1) {
    ASSIGN_OR_RETURN(axis, ctx.Axis(zero_axis.axis, rank));
  }
  ASSIGN_OR_RETURN(const ValueId zero, AlongAxis(ctx, typed, rank, axis));
  return ctx.Binary(Binary::kSubtract, x, zero);
}

absl::Status LowerMatMulInteger(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const ValueId a, Centred(ctx, 0, {2, -2}, DType::kInt32));
  ASSIGN_OR_RETURN(const ValueId b, Centred(ctx, 1, {3, -1}, DType::kInt32));
  return Finish(ctx, MatrixProduct(ctx, a, b));
}

// Convolves in float64, which holds every sum of 8-bit products exactly.
absl::Status LowerConvInteger(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const ValueId x, Centred(ctx, 0, {2, 0}, DType::kFloat64));
  ASSIGN_OR_RETURN(const ValueId w, Centred(ctx, 1, {3, 0}, DType::kFloat64));
  ASSIGN_OR_RETURN(const ValueId y, Convolution(ctx, {x, w}));
  return Finish(ctx, ctx.Cast(y, DType::kInt32));
}

// The inputs for y = round(sum * first_scale * second_scale / scale) + zero,
// which turns integer sums into quantised numbers. The second scale may have
// one number per channel along `axis`.
struct Requantize {
  int first_scale, second_scale, scale, zero;  // input numbers
  int axis;
};

absl::StatusOr<ValueId> Requantized(NodeContext& ctx, ValueId sum,
                                    const Requantize& inputs) {
  const int rank = ctx.rank(sum);
  ASSIGN_OR_RETURN(const int axis, ctx.Axis(inputs.axis, rank));
  ValueIds scales;
  for (int input : {inputs.first_scale, inputs.second_scale, inputs.scale}) {
    ASSIGN_OR_RETURN(const ValueId given, ctx.Input(input));
    ASSIGN_OR_RETURN(const ValueId typed, ctx.Cast(given, ctx.dtype(sum)));
    ASSIGN_OR_RETURN(const ValueId scale, AlongAxis(ctx, typed, rank, axis));
    scales.push_back(scale);
  }
  ASSIGN_OR_RETURN(const ValueId both,
                   ctx.Binary(Binary::kMultiply, scales[0], scales[1]));
  ASSIGN_OR_RETURN(const ValueId numbers,
                   ctx.Binary(Binary::kMultiply, sum, both));
  // The output has the type of its zero point.
  ASSIGN_OR_RETURN(const ValueId zeros, ctx.Input(inputs.zero));
  ASSIGN_OR_RETURN(const ValueId typed, ctx.Cast(zeros, ctx.dtype(sum)));
  ASSIGN_OR_RETURN(const ValueId zero, AlongAxis(ctx, typed, rank, axis));
  return Quantized(
      ctx, numbers,
      {.scale = scales[2],
       .zero = zero,
       .element_type = CodeType(ctx, inputs.zero, ctx.dtype(zeros))});
}

absl::Status LowerQLinearMatMul(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const ValueId a, Centred(ctx, 0, {2, -2}, DType::kInt32));
  ASSIGN_OR_RETURN(const ValueId b, Centred(ctx, 3, {5, -1}, DType::kInt32));
  ASSIGN_OR_RETURN(const ValueId sum, MatrixProduct(ctx, a, b));
  ASSIGN_OR_RETURN(const ValueId numbers, ctx.Cast(sum, DType::kFloat32));
  return Finish(ctx, Requantized(ctx, numbers, {1, 4, 6, 7, -1}));
}

absl::Status LowerQLinearConv(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const ValueId x, Centred(ctx, 0, {2, 0}, DType::kFloat32));
  ASSIGN_OR_RETURN(const ValueId w, Centred(ctx, 3, {5, 0}, DType::kFloat32));
  ValueId bias;
  if (ctx.has_input(8)) {
    ASSIGN_OR_RETURN(const ValueId given, ctx.Input(8));
    ASSIGN_OR_RETURN(bias, ctx.Cast(given, DType::kFloat32));
  }
  ASSIGN_OR_RETURN(const ValueId sum, Convolution(ctx, {x, w, bias}));
  return Finish(ctx, Requantized(ctx, sum, {1, 4, 6, 7, 1}));
}

}  // namespace

absl::StatusOr<ValueId> AlongAxis(NodeContext& ctx, ValueId x, int rank,
                                  int axis) {
  if (ctx.shape(x).elements() == 1) return ctx.Reshape(x, {});
  if (ctx.rank(x) != 1 || rank == 0) {
    return ctx.Refuse("scales and zero points must be one number or a list, ",
                      "not ", ctx.shape(x).ToString());
  }
  std::vector<int64_t> dims(static_cast<size_t>(rank), 1);
  dims[static_cast<size_t>(axis)] = ctx.shape(x)[0];
  return ctx.Reshape(x, dims);
}

int64_t CodeType(const NodeContext& ctx, int zero_input, DType dtype) {
  const int known = ctx.ElementType(zero_input);
  return known != 0 ? known : OnnxType(dtype);
}

absl::StatusOr<ValueId> Quantized(NodeContext& ctx, ValueId x,
                                  const Codes& codes) {
  const auto [scale, zero, element_type] = codes;
  const NarrowType* narrow = FindNarrowType(element_type);
  if (narrow != nullptr && narrow->is_float()) {
    return QuantizedToReal(ctx, x, codes, *narrow);
  }
  ASSIGN_OR_RETURN(const Range range, RangeOf(ctx, element_type));
  ASSIGN_OR_RETURN(const DType dtype,
                   DTypeFromOnnx(static_cast<int>(element_type)));
  ASSIGN_OR_RETURN(const ValueId ratio, ctx.Binary(Binary::kDivide, x, scale));
  ASSIGN_OR_RETURN(const ValueId whole, ctx.Unary(Unary::kRound, ratio));
  ASSIGN_OR_RETURN(const ValueId shifted,
                   ctx.Binary(Binary::kAdd, whole, zero));
  ASSIGN_OR_RETURN(const ValueId held,
                   ctx.Unary(Unary::kClip, shifted, range.low, range.high));
  return ctx.Cast(held, dtype);
}

// A value of zeros has no range. Its scale is 1, as in ONNX Runtime.
absl::StatusOr<DynamicCodes> QuantizedByRange(NodeContext& ctx, ValueId x) {
  DynamicCodes codes;
  ASSIGN_OR_RETURN(const ValueId high, Extreme(ctx, x, ReduceFunction::kMax));
  ASSIGN_OR_RETURN(const ValueId low, Extreme(ctx, x, ReduceFunction::kMin));
  ASSIGN_OR_RETURN(const ValueId span,
                   ctx.Binary(Binary::kSubtract, high, low));
  // The codes 0 to 255 cover the range.
  ASSIGN_OR_RETURN(const ValueId step,
                   ctx.Binary(Binary::kDivide, span, 255.0));
  ASSIGN_OR_RETURN(const ValueId wide, ctx.Binary(Binary::kGreater, step, 0.0));
  ASSIGN_OR_RETURN(
      codes.scale,
      ctx.Emit(Op::kWhere, {wide, step, ctx.Scalar(ctx.dtype(x), 1)}));
  ASSIGN_OR_RETURN(const ValueId ratio,
                   ctx.Binary(Binary::kDivide, low, codes.scale));
  ASSIGN_OR_RETURN(const ValueId negated, ctx.Unary(Unary::kNegate, ratio));
  ASSIGN_OR_RETURN(const ValueId rounded, ctx.Unary(Unary::kRound, negated));
  ASSIGN_OR_RETURN(codes.zero, ctx.Unary(Unary::kClip, rounded, 0, 255));
  ASSIGN_OR_RETURN(codes.y,
                   Quantized(ctx, x,
                             {.scale = codes.scale,
                              .zero = codes.zero,
                              .element_type = onnx::TensorProto::UINT8}));
  return codes;
}

absl::Span<const OperatorEntry> QuantizeOperators() {
  static constexpr absl::string_view kFamily = "quantisation";
  static const OperatorEntry rows[] = {
      {"", "ConvInteger", kFamily, kShapes, LowerConvInteger},
      {"", "DequantizeLinear", kFamily, kShapes, LowerDequantize},
      {"", "DynamicQuantizeLinear", kFamily, kShapes, LowerDynamicQuantize},
      {"", "MatMulInteger", kFamily, kShapes, LowerMatMulInteger},
      {"", "QLinearConv", kFamily, kShapes, LowerQLinearConv},
      {"", "QLinearMatMul", kFamily, kShapes, LowerQLinearMatMul},
      {"", "QuantizeLinear", kFamily, kShapes, LowerQuantize},
      {"com.microsoft", "DequantizeLinear", kFamily, kShapes, LowerDequantize},
      {"com.microsoft", "QuantizeLinear", kFamily, kShapes, LowerQuantize},
  };
  return rows;
}

}  // namespace gpupool::engine::onnx_import
