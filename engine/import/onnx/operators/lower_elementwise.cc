// Arithmetic, comparisons and logic on elements.
#include <onnx/onnx_pb.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/base/status_macros.h"
#include "engine/import/onnx/file/tensor_data.h"
#include "engine/import/onnx/graph/lowering_parts.h"
#include "engine/import/onnx/graph/lowerings.h"
#include "engine/import/onnx/operators/narrow_casts.h"

namespace gpupool::engine::onnx_import {
namespace {

using Unary = UnaryFunction;
using Binary = BinaryFunction;

struct Operands {
  ValueId a, b;
};

// Applies the broadcasting of opsets before 7. The shapes had to agree unless
// an attribute says where b begins in a. Without `axis`, b is a's tail.
absl::StatusOr<ValueId> OldBroadcast(NodeContext& ctx, ValueId a, ValueId b) {
  ASSIGN_OR_RETURN(const int64_t broadcast, ctx.Int("broadcast", 0));
  if (broadcast == 0 || !ctx.has_attribute("axis")) return b;
  ASSIGN_OR_RETURN(const int64_t at, ctx.Int("axis", 0));
  ASSIGN_OR_RETURN(const int axis, ctx.Axis(at, ctx.rank(a)));
  if (axis + ctx.rank(b) > ctx.rank(a)) {
    return ctx.Refuse("axis ", at, " does not fit ", ctx.shape(b).ToString(),
                      " into ", ctx.shape(a).ToString());
  }
  std::vector<int64_t> dims = Dims(ctx.shape(b));
  dims.resize(static_cast<size_t>(ctx.rank(a) - axis), 1);
  return ctx.Reshape(b, dims);
}

absl::StatusOr<Operands> TwoOperands(NodeContext& ctx) {
  Operands operands;
  ASSIGN_OR_RETURN(operands.a, ctx.Input(0));
  ASSIGN_OR_RETURN(operands.b, ctx.Input(1));
  if (ctx.opset() < 7) {
    ASSIGN_OR_RETURN(operands.b, OldBroadcast(ctx, operands.a, operands.b));
  }
  return operands;
}

template <Binary function>
absl::Status LowerBinary(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const Operands x, TwoOperands(ctx));
  return Finish(ctx, ctx.Binary(function, x.a, x.b));
}

// Combines bools. The op also takes integers, which the operators And, Or and
// Xor do not.
template <Binary function>
absl::Status LowerLogic(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const Operands x, TwoOperands(ctx));
  if (ctx.dtype(x.a) != DType::kBool) {
    return ctx.Refuse("needs bool, not ", DTypeName(ctx.dtype(x.a)));
  }
  return Finish(ctx, ctx.Binary(function, x.a, x.b));
}

absl::Status LowerAdd(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const Operands x, TwoOperands(ctx));
  return Finish(ctx, Plus(ctx, x.a, x.b));
}

absl::Status LowerMod(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const Operands x, TwoOperands(ctx));
  ASSIGN_OR_RETURN(const int64_t fmod, ctx.Int("fmod", 0));
  if (fmod == 0 && IsFloating(ctx.dtype(x.a))) {
    return ctx.Refuse("floating point numbers need fmod = 1");
  }
  return Finish(
      ctx, ctx.Binary(fmod ? Binary::kRemainder : Binary::kModulo, x.a, x.b));
}

// The exponent may have another type than the base. The result has the base's
// type.
absl::Status LowerPow(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const Operands x, TwoOperands(ctx));
  const DType type = ctx.dtype(x.a);
  const DType exponent = ctx.dtype(x.b);
  const DType common =
      IsFloating(type) || !IsFloating(exponent) ? type : DType::kFloat64;
  ASSIGN_OR_RETURN(const ValueId a, ctx.Cast(x.a, common));
  ASSIGN_OR_RETURN(const ValueId b, ctx.Cast(x.b, common));
  ASSIGN_OR_RETURN(const ValueId y, ctx.Binary(Binary::kPower, a, b));
  return Finish(ctx, ctx.Cast(y, type));
}

absl::Status LowerBitShift(NodeContext& ctx) {
  if (!ctx.has_attribute("direction")) {
    return ctx.Refuse("needs the attribute direction");
  }
  ASSIGN_OR_RETURN(const int right,
                   Choice(ctx, "direction", {"LEFT", "RIGHT"}));
  ASSIGN_OR_RETURN(const Operands x, TwoOperands(ctx));
  return Finish(
      ctx, ctx.Binary(right == 0 ? Binary::kShiftLeft : Binary::kShiftRight,
                      x.a, x.b));
}

// Combines integers bit by bit. The result has the operands' type in the file.
template <Binary function>
absl::Status LowerBitwise(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const ValueId a, ctx.Input(0));
  ASSIGN_OR_RETURN(const ValueId b, ctx.Input(1));
  if (ctx.dtype(a) == DType::kBool) return ctx.Refuse("takes integers");
  ASSIGN_OR_RETURN(const ValueId y, ctx.Binary(function, a, b));
  ctx.Set(0, y, ctx.ElementType(0));
  return absl::OkStatus();
}

// Returns the number whose bits are all set. It is -1 for signed types.
absl::StatusOr<double> AllBits(const NodeContext& ctx, DType dtype) {
  switch (ctx.ElementType(0)) {
    case onnx::TensorProto::UINT16:
      return 65535.0;
    case onnx::TensorProto::UINT32:
      return 4294967295.0;
    case onnx::TensorProto::UINT64:
      return ctx.Unsupported("the complement of uint64 is not");
    default:
      return dtype == DType::kUint8 ? 255.0 : -1.0;
  }
}

// Subtracts x from the number with all bits set, which gives its complement.
absl::Status LowerBitwiseNot(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const ValueId x, ctx.Input(0));
  const DType dtype = ctx.dtype(x);
  if (dtype == DType::kBool || IsFloating(dtype)) {
    return ctx.Refuse("takes integers, not ", DTypeName(dtype));
  }
  ASSIGN_OR_RETURN(const double all, AllBits(ctx, dtype));
  ASSIGN_OR_RETURN(const ValueId y,
                   ctx.Binary(Binary::kSubtract, ctx.Scalar(dtype, all), x));
  ctx.Set(0, y, ctx.ElementType(0));
  return absl::OkStatus();
}

// Combines all inputs by one function.
absl::StatusOr<ValueId> FoldInputs(NodeContext& ctx, Binary function) {
  if (ctx.input_count() < 1) return ctx.Refuse("needs at least one input");
  ASSIGN_OR_RETURN(ValueId y, ctx.Input(0));
  for (int i = 1; i < ctx.input_count(); ++i) {
    ASSIGN_OR_RETURN(const ValueId x, ctx.Input(i));
    ASSIGN_OR_RETURN(y, function == Binary::kAdd ? Plus(ctx, y, x)
                                                 : ctx.Binary(function, y, x));
  }
  return y;
}

template <Binary function>
absl::Status LowerFold(NodeContext& ctx) {
  return Finish(ctx, FoldInputs(ctx, function));
}

absl::Status LowerMean(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const ValueId sum, FoldInputs(ctx, Binary::kAdd));
  if (ctx.input_count() == 1) return Finish(ctx, sum);
  RETURN_IF_ERROR(RequireFloating(ctx, sum));
  return Finish(ctx,
                ctx.Binary(Binary::kMultiply, sum, 1.0 / ctx.input_count()));
}

template <Unary function>
absl::Status LowerUnary(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const ValueId x, ctx.Input(0));
  return Finish(ctx, ctx.Unary(function, x));
}

absl::Status LowerIdentity(NodeContext& ctx) {
  return Finish(ctx, ctx.Input(0));
}

absl::Status LowerIsInf(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const ValueId x, ctx.Input(0));
  ASSIGN_OR_RETURN(const int64_t negative, ctx.Int("detect_negative", 1));
  ASSIGN_OR_RETURN(const int64_t positive, ctx.Int("detect_positive", 1));
  if (!negative && !positive) {
    return Finish(ctx, Filled(ctx, DType::kBool, ctx.shape(x), 0));
  }
  const double which = negative && positive ? 0 : positive ? 1 : -1;
  return Finish(ctx, ctx.Unary(Unary::kIsInf, x, which));
}

// Applies one limit of Clip, whose number need not be known.
absl::StatusOr<ValueId> Limit(NodeContext& ctx, ValueId x, int input,
                              Binary function) {
  ASSIGN_OR_RETURN(ValueId limit, ctx.Input(input));
  if (ctx.shape(limit).elements() != 1) {
    return ctx.Refuse("a limit must be one number, not ",
                      ctx.shape(limit).ToString());
  }
  ASSIGN_OR_RETURN(limit, ctx.Reshape(limit, {}));
  return ctx.Binary(function, x, limit);
}

absl::Status LowerClip(NodeContext& ctx) {
  ASSIGN_OR_RETURN(ValueId x, ctx.Input(0));
  const double infinity = std::numeric_limits<double>::infinity();
  double low = -infinity, high = infinity;
  bool low_known = true, high_known = true;
  if (ctx.opset() < 11) {
    ASSIGN_OR_RETURN(low, ctx.Float("min", low));
    ASSIGN_OR_RETURN(high, ctx.Float("max", high));
  } else {
    low_known = !ctx.has_input(1) || ctx.IsKnown(1);
    high_known = !ctx.has_input(2) || ctx.IsKnown(2);
    if (ctx.has_input(1) && low_known) {
      ASSIGN_OR_RETURN(low, KnownFloat(ctx, 1, "the lower limit"));
    }
    if (ctx.has_input(2) && high_known) {
      ASSIGN_OR_RETURN(high, KnownFloat(ctx, 2, "the upper limit"));
    }
  }
  if (low_known && high_known) {
    // Integer types have no infinity to compare with.
    if (!IsFloating(ctx.dtype(x)) && std::isinf(low) != std::isinf(high)) {
      return Finish(ctx, std::isinf(low)
                             ? ctx.Binary(Binary::kMinimum, x, high)
                             : ctx.Binary(Binary::kMaximum, x, low));
    }
    if (std::isinf(low) && std::isinf(high) && low < high) {
      return Finish(ctx, x);
    }
    return Finish(ctx, ctx.Unary(Unary::kClip, x, low, high));
  }
  if (ctx.has_input(1)) {
    ASSIGN_OR_RETURN(x, Limit(ctx, x, 1, Binary::kMaximum));
  }
  if (ctx.has_input(2)) {
    ASSIGN_OR_RETURN(x, Limit(ctx, x, 2, Binary::kMinimum));
  }
  return Finish(ctx, x);
}

// Casts to a narrow type of the file.
absl::Status FinishNarrow(NodeContext& ctx, ValueId x, const NarrowType& type) {
  ASSIGN_OR_RETURN(const int64_t saturate, ctx.Int("saturate", 1));
  ASSIGN_OR_RETURN(const ValueId y, CastToNarrow(ctx, x, type, saturate != 0));
  ctx.Set(0, y, type.data_type);
  return absl::OkStatus();
}

absl::Status LowerCast(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const ValueId x, ctx.Input(0));
  if (!ctx.has_attribute("to")) return ctx.Refuse("needs the attribute to");
  ASSIGN_OR_RETURN(const int64_t number, ctx.Int("to", 0));
  if (const NarrowType* narrow = FindNarrowType(number)) {
    return FinishNarrow(ctx, x, *narrow);
  }
  ASSIGN_OR_RETURN(const DType to, ctx.TypeAttribute("to", DType::kFloat32));
  return Finish(ctx, ctx.Cast(x, to));
}

absl::Status LowerCastLike(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const ValueId x, ctx.Input(0));
  ASSIGN_OR_RETURN(const ValueId like, ctx.Input(1));
  if (const NarrowType* narrow = FindNarrowType(ctx.ElementType(1))) {
    return FinishNarrow(ctx, x, *narrow);
  }
  return Finish(ctx, ctx.Cast(x, ctx.dtype(like)));
}

// Returns the bits of an integer type of the file. No bits for other types.
IntegerBits BitsOf(int64_t data_type) {
  const NarrowType* narrow = FindNarrowType(data_type);
  if (narrow != nullptr && !narrow->is_float()) {
    return {narrow->bits, narrow->is_signed, narrow->held_as};
  }
  switch (data_type) {
    case onnx::TensorProto::BOOL:
    case onnx::TensorProto::UINT8:
      return {8, false, DType::kUint8};
    case onnx::TensorProto::INT8:
      return {8, true, DType::kInt8};
    case onnx::TensorProto::UINT16:
      return {16, false, DType::kInt32};
    case onnx::TensorProto::INT16:
      return {16, true, DType::kInt32};
    case onnx::TensorProto::UINT32:
      return {32, false, DType::kInt64};
    case onnx::TensorProto::INT32:
      return {32, true, DType::kInt32};
    case onnx::TensorProto::UINT64:
    case onnx::TensorProto::INT64:
      return {64, true, DType::kInt64};
    default:
      return {};
  }
}

// Gives the bits of integers another type. Those of floating numbers are not
// known to the graph.
absl::Status LowerBitCast(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const ValueId x, ctx.Input(0));
  ASSIGN_OR_RETURN(const int64_t to, ctx.Int("to", 0));
  const int known = ctx.ElementType(0);
  const int from = known != 0 ? known : OnnxType(ctx.dtype(x));
  if (from == to) return Finish(ctx, x);
  const IntegerBits bits = BitsOf(to), given = BitsOf(from);
  const int number = static_cast<int>(std::clamp<int64_t>(to, -1, 1000));
  if (bits.count == 0 || given.count == 0 ||
      number == onnx::TensorProto::BOOL) {
    return ctx.Unsupported("the bits of ", OnnxTypeName(from), " as ",
                           OnnxTypeName(number), " are not");
  }
  if (bits.count != given.count) {
    return ctx.Refuse(OnnxTypeName(from), " and ", OnnxTypeName(number),
                      " differ in bits");
  }
  // Both types of 64 bits are held in the same way.
  absl::StatusOr<ValueId> y = x;
  if (bits.count < 64) y = LowestBits(ctx, x, bits);
  if (!y.ok()) return y.status();
  ctx.Set(0, *y, number);
  return absl::OkStatus();
}

absl::Status LowerWhere(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const ValueId condition, ctx.Input(0));
  ASSIGN_OR_RETURN(const ValueId a, ctx.Input(1));
  ASSIGN_OR_RETURN(const ValueId b, ctx.Input(2));
  return Finish(ctx, ctx.Emit(Op::kWhere, {condition, a, b}));
}

}  // namespace

absl::Span<const OperatorEntry> ElementwiseOperators() {
  static constexpr absl::string_view kMath = "elementwise";
  static constexpr absl::string_view kLogic = "comparison and logic";
  static const OperatorEntry rows[] = {
      {"", "Abs", kMath, kShapes, LowerUnary<Unary::kAbs>},
      {"", "Acos", kMath, kShapes, LowerUnary<Unary::kAcos>},
      {"", "Acosh", kMath, kShapes, LowerUnary<Unary::kAcosh>},
      {"", "Add", kMath, kShapes, LowerAdd},
      {"", "And", kLogic, kShapes, LowerLogic<Binary::kAnd>},
      {"", "Asin", kMath, kShapes, LowerUnary<Unary::kAsin>},
      {"", "Asinh", kMath, kShapes, LowerUnary<Unary::kAsinh>},
      {"", "Atan", kMath, kShapes, LowerUnary<Unary::kAtan>},
      {"", "Atanh", kMath, kShapes, LowerUnary<Unary::kAtanh>},
      {"", "BitCast", kMath, kShapes, LowerBitCast},
      {"", "BitShift", kMath, kShapes, LowerBitShift},
      {"", "BitwiseAnd", kMath, kShapes, LowerBitwise<Binary::kAnd>},
      {"", "BitwiseNot", kMath, kShapes, LowerBitwiseNot},
      {"", "BitwiseOr", kMath, kShapes, LowerBitwise<Binary::kOr>},
      {"", "BitwiseXor", kMath, kShapes, LowerBitwise<Binary::kXor>},
      {"", "Cast", kMath, kShapes, LowerCast},
      {"", "CastLike", kMath, kShapes, LowerCastLike},
      {"", "Ceil", kMath, kShapes, LowerUnary<Unary::kCeil>},
      {"", "Clip", kMath, kShapes, LowerClip},
      {"", "Cos", kMath, kShapes, LowerUnary<Unary::kCos>},
      {"", "Cosh", kMath, kShapes, LowerUnary<Unary::kCosh>},
      {"", "Div", kMath, kShapes, LowerBinary<Binary::kDivide>},
      {"", "Equal", kLogic, kShapes, LowerBinary<Binary::kEqual>},
      {"", "Erf", kMath, kShapes, LowerUnary<Unary::kErf>},
      {"", "Exp", kMath, kShapes, LowerUnary<Unary::kExp>},
      {"", "Floor", kMath, kShapes, LowerUnary<Unary::kFloor>},
      {"", "Greater", kLogic, kShapes, LowerBinary<Binary::kGreater>},
      {"", "GreaterOrEqual", kLogic, kShapes,
       LowerBinary<Binary::kGreaterOrEqual>},
      {"", "Identity", kMath, kShapes, LowerIdentity},
      {"", "IsInf", kLogic, kShapes, LowerIsInf},
      {"", "IsNaN", kLogic, kShapes, LowerUnary<Unary::kIsNan>},
      {"", "Less", kLogic, kShapes, LowerBinary<Binary::kLess>},
      {"", "LessOrEqual", kLogic, kShapes, LowerBinary<Binary::kLessOrEqual>},
      {"", "Log", kMath, kShapes, LowerUnary<Unary::kLog>},
      {"", "Max", kMath, kShapes, LowerFold<Binary::kMaximum>},
      {"", "Mean", kMath, kShapes, LowerMean},
      {"", "Min", kMath, kShapes, LowerFold<Binary::kMinimum>},
      {"", "Mod", kMath, kShapes, LowerMod},
      {"", "Mul", kMath, kShapes, LowerBinary<Binary::kMultiply>},
      {"", "Neg", kMath, kShapes, LowerUnary<Unary::kNegate>},
      {"", "Not", kLogic, kShapes, LowerUnary<Unary::kNot>},
      {"", "Or", kLogic, kShapes, LowerLogic<Binary::kOr>},
      {"", "Pow", kMath, kShapes, LowerPow},
      {"", "Reciprocal", kMath, kShapes, LowerUnary<Unary::kReciprocal>},
      {"", "Round", kMath, kShapes, LowerUnary<Unary::kRound>},
      {"", "Sign", kMath, kShapes, LowerUnary<Unary::kSign>},
      {"", "Sin", kMath, kShapes, LowerUnary<Unary::kSin>},
      {"", "Sinh", kMath, kShapes, LowerUnary<Unary::kSinh>},
      {"", "Sqrt", kMath, kShapes, LowerUnary<Unary::kSqrt>},
      {"", "Sub", kMath, kShapes, LowerBinary<Binary::kSubtract>},
      {"", "Sum", kMath, kShapes, LowerFold<Binary::kAdd>},
      {"", "Tan", kMath, kShapes, LowerUnary<Unary::kTan>},
      {"", "Where", kLogic, kShapes, LowerWhere},
      {"", "Xor", kLogic, kShapes, LowerLogic<Binary::kXor>},
  };
  return rows;
}

}  // namespace gpupool::engine::onnx_import
