#include "engine/import/onnx/operators/narrow_casts.h"

#include <cmath>
#include <limits>

#include "engine/base/status_macros.h"

namespace gpupool::engine::onnx_import {
namespace {

using Unary = UnaryFunction;
using Binary = BinaryFunction;

// Returns the distance of the type's numbers next to x, a power of 2. Searches
// for the exponent bit by bit, since a logarithm would not be exact.
absl::StatusOr<ValueId> Distance(NodeContext& ctx, ValueId x,
                                 const NarrowFloat& real) {
  const int lowest = real.smallest_exponent();
  ASSIGN_OR_RETURN(const ValueId size, ctx.Unary(Unary::kAbs, x));
  ASSIGN_OR_RETURN(ValueId rest,
                   ctx.Binary(Binary::kMultiply, size, std::ldexp(1, -lowest)));
  ValueId distance =
      ctx.Scalar(ctx.dtype(x), std::ldexp(1, lowest - real.mantissa_bits));
  for (int step = 16; step > 0; step /= 2) {
    if (step > real.largest_exponent() - lowest) continue;
    const double factor = std::ldexp(1, step);
    ASSIGN_OR_RETURN(const ValueId more,
                     ctx.Binary(Binary::kGreaterOrEqual, rest, factor));
    ASSIGN_OR_RETURN(const ValueId smaller,
                     ctx.Binary(Binary::kMultiply, rest, 1 / factor));
    ASSIGN_OR_RETURN(const ValueId larger,
                     ctx.Binary(Binary::kMultiply, distance, factor));
    ASSIGN_OR_RETURN(rest, ctx.Emit(Op::kWhere, {more, smaller, rest}));
    ASSIGN_OR_RETURN(distance, ctx.Emit(Op::kWhere, {more, larger, distance}));
  }
  return distance;
}

// Replaces what is larger than the type's numbers.
absl::StatusOr<ValueId> Bounded(NodeContext& ctx, ValueId y,
                                const NarrowFloat& real, bool saturate) {
  ASSIGN_OR_RETURN(const ValueId held,
                   ctx.Unary(Unary::kClip, y, -real.largest, real.largest));
  if (saturate) return held;
  const double infinity = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  ASSIGN_OR_RETURN(const ValueId fits, ctx.Binary(Binary::kEqual, held, y));
  ValueId other = ctx.Scalar(ctx.dtype(y), nan);
  if (real.has_infinity) {
    ASSIGN_OR_RETURN(other, ctx.Binary(Binary::kMultiply, y, infinity));
  }
  return ctx.Emit(Op::kWhere, {fits, y, other});
}

absl::StatusOr<ValueId> CastToReal(NodeContext& ctx, ValueId given,
                                   const NarrowType& type, bool saturate) {
  const DType dtype =
      ctx.dtype(given) == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
  ASSIGN_OR_RETURN(const ValueId x, ctx.Cast(given, dtype));
  ASSIGN_OR_RETURN(const ValueId lost, ctx.Unary(Unary::kIsNan, x));
  ASSIGN_OR_RETURN(const ValueId number,
                   ctx.Emit(Op::kWhere, {lost, ctx.Scalar(dtype, 0), x}));
  ASSIGN_OR_RETURN(const ValueId distance, Distance(ctx, number, type.real));
  ASSIGN_OR_RETURN(const ValueId steps,
                   ctx.Binary(Binary::kDivide, number, distance));
  ASSIGN_OR_RETURN(const ValueId whole, ctx.Unary(Unary::kRound, steps));
  ASSIGN_OR_RETURN(const ValueId rounded,
                   ctx.Binary(Binary::kMultiply, whole, distance));
  ASSIGN_OR_RETURN(ValueId y, Bounded(ctx, rounded, type.real,
                                      saturate || !type.real.has_nan));
  if (type.real.has_nan) {
    ASSIGN_OR_RETURN(y, ctx.Emit(Op::kWhere, {lost, x, y}));
  }
  return ctx.Cast(y, type.held_as);
}

}  // namespace

absl::StatusOr<ValueId> LowestBits(NodeContext& ctx, ValueId x,
                                   const IntegerBits& bits) {
  const double count = std::ldexp(1, bits.count);
  const double low = bits.is_signed ? count / 2 : 0;
  ASSIGN_OR_RETURN(const ValueId whole, ctx.Cast(x, DType::kInt64));
  ASSIGN_OR_RETURN(const ValueId shifted, ctx.Binary(Binary::kAdd, whole, low));
  ASSIGN_OR_RETURN(const ValueId rest,
                   ctx.Binary(Binary::kModulo, shifted, count));
  ASSIGN_OR_RETURN(const ValueId y, ctx.Binary(Binary::kSubtract, rest, low));
  return ctx.Cast(y, bits.held_as);
}

absl::StatusOr<ValueId> CastToNarrow(NodeContext& ctx, ValueId x,
                                     const NarrowType& type, bool saturate) {
  if (!type.is_float()) {
    return LowestBits(ctx, x, {type.bits, type.is_signed, type.held_as});
  }
  if (type.is_rounded_to()) return CastToReal(ctx, x, type, saturate);
  return ctx.Unsupported("rounding to ", type.name, " is not");
}

}  // namespace gpupool::engine::onnx_import
