// Products with 8-bit and 4-bit integers.
#include <cstdint>
#include <vector>

#include "engine/base/status_macros.h"
#include "engine/import/onnx/contrib/contrib_parts.h"
#include "engine/import/onnx/contrib/quantized_product.h"
#include "engine/import/onnx/graph/lowering_parts.h"
#include "engine/import/onnx/graph/lowerings.h"
#include "engine/import/onnx/operators/products.h"
#include "engine/import/onnx/operators/quantisation.h"

namespace gpupool::engine::onnx_import {
namespace {

using Unary = UnaryFunction;
using Binary = BinaryFunction;

// The inputs of MatMulIntegerToFloat and of DynamicQuantizeMatMul after the
// left operand. -1: there is no such input.
struct RightInputs {
  int b, b_scale, b_zero, bias;
};

// Returns a * b, where a is centred already, times the scales, plus the bias.
absl::StatusOr<ValueId> ScaledProduct(NodeContext& ctx, ValueId a,
                                      ValueId a_scale,
                                      const RightInputs& right) {
  ASSIGN_OR_RETURN(const ValueId codes, ctx.Input(right.b));
  ASSIGN_OR_RETURN(const ValueId b, CentredReal(ctx, codes, right.b_zero, -1));
  ASSIGN_OR_RETURN(const ValueId sums, MatrixProduct(ctx, a, b));
  ASSIGN_OR_RETURN(const ValueId half,
                   ctx.Binary(Binary::kMultiply, sums, a_scale));
  ASSIGN_OR_RETURN(const ValueId y, TimesScale(ctx, half, right.b_scale));
  return PlusInput(ctx, y, right.bias, "bias");
}

absl::Status LowerMatMulIntegerToFloat(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const ValueId codes, ctx.Input(0));
  ASSIGN_OR_RETURN(const ValueId a, CentredReal(ctx, codes, 4, -2));
  ASSIGN_OR_RETURN(const ValueId scale, OneNumber(ctx, 2, "scale of A"));
  return Finish(ctx,
                ScaledProduct(ctx, a, scale,
                              {.b = 1, .b_scale = 3, .b_zero = 5, .bias = 6}));
}

absl::Status LowerDynamicQuantizeMatMul(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const ValueId x, ctx.Input(0));
  RETURN_IF_ERROR(RequireFloating(ctx, x));
  ASSIGN_OR_RETURN(const DynamicCodes codes, QuantizedByRange(ctx, x));
  ASSIGN_OR_RETURN(const ValueId typed, ctx.Cast(codes.y, ctx.dtype(x)));
  ASSIGN_OR_RETURN(const ValueId a,
                   ctx.Binary(Binary::kSubtract, typed, codes.zero));
  return Finish(ctx,
                ScaledProduct(ctx, a, codes.scale,
                              {.b = 1, .b_scale = 2, .b_zero = 3, .bias = 4}));
}

// Returns input `input` as a centred matrix, transposed by the attribute.
absl::StatusOr<ValueId> GemmOperand(NodeContext& ctx, int input, int axis,
                                    absl::string_view transpose) {
  ASSIGN_OR_RETURN(const ValueId codes, ctx.Input(input));
  RETURN_IF_ERROR(RequireRank(ctx, codes, 2, 2));
  ASSIGN_OR_RETURN(const int64_t turned, ctx.Int(transpose, 0));
  ValueId x = codes;
  if (turned != 0) {
    ASSIGN_OR_RETURN(x, ctx.Transpose(codes, {1, 0}));
  }
  return CentredReal(ctx, x, input + 2, axis);
}

// Computes alpha * a_scale * b_scale * (A B + C), as real numbers, or as codes
// where the scale of the output, input 7, is given.
absl::Status LowerQGemm(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const ValueId a, GemmOperand(ctx, 0, -2, "transA"));
  ASSIGN_OR_RETURN(const ValueId b, GemmOperand(ctx, 3, -1, "transB"));
  ASSIGN_OR_RETURN(const double alpha, ctx.Float("alpha", 1));
  ASSIGN_OR_RETURN(ValueId y, MatrixProduct(ctx, a, b));
  if (ctx.has_input(6)) {
    ASSIGN_OR_RETURN(const ValueId given, ctx.Input(6));
    ASSIGN_OR_RETURN(const ValueId c, ctx.Cast(given, ctx.dtype(y)));
    ASSIGN_OR_RETURN(y, PlusPart(ctx, y, c, "matrix C"));
  }
  ASSIGN_OR_RETURN(const ValueId scale, OneNumber(ctx, 1, "scale of A"));
  ASSIGN_OR_RETURN(const ValueId half, ctx.Binary(Binary::kMultiply, y, scale));
  ASSIGN_OR_RETURN(y, TimesScale(ctx, half, 4));
  if (alpha != 1) {
    ASSIGN_OR_RETURN(y, ctx.Binary(Binary::kMultiply, y, alpha));
  }
  if (!ctx.has_input(7)) return Finish(ctx, y);
  Codes codes;
  ASSIGN_OR_RETURN(codes.scale, OneNumber(ctx, 7, "scale of Y"));
  const int typed = ctx.has_input(8) ? 8 : 0;  // the input with Y's type
  ASSIGN_OR_RETURN(const ValueId like, ctx.Input(typed));
  codes.element_type = CodeType(ctx, typed, ctx.dtype(like));
  codes.zero = ctx.Scalar(ctx.dtype(y), 0);
  if (typed == 8) {
    ASSIGN_OR_RETURN(codes.zero, OneNumber(ctx, 8, "zero point of Y"));
  }
  ASSIGN_OR_RETURN(const ValueId result, Quantized(ctx, y, codes));
  ctx.Set(0, result, static_cast<int>(codes.element_type));
  return absl::OkStatus();
}

// The weights [columns, blocks, block] of MatMulNBits.
struct BlockedWeights {
  int64_t bits = 4;
  int64_t rows = 0;     // K, of the product
  int64_t columns = 0;  // N
  int64_t block = 0;    // cells of K that share a scale
  int64_t blocks = 0;   // of a column
};

absl::StatusOr<BlockedWeights> ReadBlocks(NodeContext& ctx) {
  BlockedWeights w;
  ASSIGN_OR_RETURN(w.bits, ctx.Int("bits", 4));
  ASSIGN_OR_RETURN(w.rows, ctx.Int("K", 0));
  ASSIGN_OR_RETURN(w.columns, ctx.Int("N", 0));
  ASSIGN_OR_RETURN(w.block, ctx.Int("block_size", 0));
  if (w.bits != 4 && w.bits != 8) {
    return ctx.Unsupported("bits = ", w.bits, " is not; 4 and 8 are");
  }
  for (const int64_t size : {w.rows, w.columns}) {
    if (size < 1 || size > kMaxElements / 2) {
      return ctx.Refuse("K ", w.rows, " and N ", w.columns,
                        " must be from 1 to ", kMaxElements / 2);
    }
  }
  if (w.block < 16 || w.block > kMaxElements / 2 ||
      (w.block & (w.block - 1)) != 0) {
    return ctx.Refuse("block_size ", w.block,
                      " must be a power of two and at least 16");
  }
  w.blocks = (w.rows - 1) / w.block + 1;
  if (w.columns > kMaxElements / (w.blocks * w.block)) {
    return ctx.Refuse("weights of ", w.columns, " times ", w.blocks * w.block,
                      " are over the limit of ", kMaxElements);
  }
  ASSIGN_OR_RETURN(const int64_t weight_prepacked,
                   ctx.Int("weight_prepacked", 0));
  if (weight_prepacked != 0) {
    return ctx.Unsupported("weight_prepacked = ", weight_prepacked, " is not");
  }
  return w;
}

// Returns input i with these dimensions. INVALID_ARGUMENT when it has another
// number of elements.
absl::StatusOr<ValueId> ShapedInput(NodeContext& ctx, int i,
                                    absl::string_view what,
                                    const std::vector<int64_t>& dims) {
  ASSIGN_OR_RETURN(const ValueId x, ctx.Input(i));
  ASSIGN_OR_RETURN(const Shape wanted, MakeShape(ctx, dims));
  if (ctx.shape(x).elements() != wanted.elements()) {
    return ctx.Refuse("the ", what, " are ", ctx.shape(x).ToString(),
                      " and must have the ", wanted.elements(), " numbers of ",
                      wanted.ToString());
  }
  return ctx.Reshape(x, dims);
}

// Returns the zero points of blocks: numbers, or codes packed like the weights,
// with a new byte for each column.
absl::StatusOr<ValueId> BlockZeros(NodeContext& ctx, const BlockedWeights& w) {
  ASSIGN_OR_RETURN(const ValueId given, ctx.Input(3));
  if (ctx.dtype(given) != DType::kUint8) {
    ASSIGN_OR_RETURN(const ValueId zeros,
                     ShapedInput(ctx, 3, "zero points", {w.columns, w.blocks}));
    return ctx.Cast(zeros, DType::kFloat32);
  }
  return ShapedInput(ctx, 3, "zero points",
                     {w.columns, (w.blocks * w.bits + 7) / 8});
}

absl::Status LowerMatMulNBits(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const BlockedWeights w, ReadBlocks(ctx));
  if (ctx.has_input(4)) return ctx.Unsupported("the input g_idx is not");
  ASSIGN_OR_RETURN(const ValueId given, ctx.Input(0));
  RETURN_IF_ERROR(RequireFloating(ctx, given));
  RETURN_IF_ERROR(RequireRank(ctx, given, 1));
  const Shape shape = ctx.shape(given);
  const int last = shape.rank() - 1;
  if (shape[last] != w.rows) {
    return ctx.Refuse("A is ", shape.ToString(),
                      " and its last dimension must be K, ", w.rows);
  }
  ASSIGN_OR_RETURN(const ValueId rows,
                   ctx.Reshape(given, {Product(shape, 0, last), w.rows}));
  ASSIGN_OR_RETURN(ValueId a, ctx.Cast(rows, DType::kFloat32));
  // Zeros for the cells of a block beyond K.
  ASSIGN_OR_RETURN(a, PadEnds(ctx, a, {0, w.blocks * w.block - w.rows}));
  ASSIGN_OR_RETURN(const ValueId codes,
                   ShapedInput(ctx, 1, "weights",
                               {w.columns, w.blocks, w.block * w.bits / 8}));
  if (ctx.dtype(codes) != DType::kUint8) {
    return ctx.Refuse("the weights are ", DTypeName(ctx.dtype(codes)),
                      " and must be uint8");
  }
  ASSIGN_OR_RETURN(const ValueId given_scales,
                   ShapedInput(ctx, 2, "scales", {w.columns, w.blocks}));
  ASSIGN_OR_RETURN(const ValueId scales,
                   ctx.Cast(given_scales, DType::kFloat32));
  std::vector<ValueId> operands{a, codes, scales};
  if (ctx.has_input(3)) {
    ASSIGN_OR_RETURN(operands.emplace_back(), BlockZeros(ctx, w));
  }
  const BlockedMatMulAttributes attributes{.bits = static_cast<int>(w.bits),
                                           .with_zeros = ctx.has_input(3)};
  ASSIGN_OR_RETURN(const ValueId product,
                   ctx.Emit(Op::kBlockedMatMul, operands, attributes));
  ASSIGN_OR_RETURN(const ValueId typed, ctx.Cast(product, ctx.dtype(given)));
  std::vector<int64_t> dims = Dims(shape);
  dims.back() = w.columns;
  ASSIGN_OR_RETURN(const ValueId y, ctx.Reshape(typed, dims));
  return Finish(ctx, PlusInput(ctx, y, 5, "bias"));
}

}  // namespace

absl::StatusOr<ValueId> CentredReal(NodeContext& ctx, ValueId x, int zero,
                                    int axis) {
  ASSIGN_OR_RETURN(const ValueId real, ctx.Cast(x, DType::kFloat32));
  if (!ctx.has_input(zero)) return real;
  ASSIGN_OR_RETURN(const ValueId zeros, ctx.Input(zero));
  ASSIGN_OR_RETURN(const ValueId typed, ctx.Cast(zeros, DType::kFloat32));
  // A zero point of a higher rank broadcasts as it is.
  if (ctx.rank(typed) > 1) return ctx.Binary(Binary::kSubtract, real, typed);
  int at = 0;
  if (ctx.shape(typed).elements() > 1) {
    ASSIGN_OR_RETURN(at, ctx.Axis(axis, ctx.rank(x)));
  }
  ASSIGN_OR_RETURN(const ValueId along, AlongAxis(ctx, typed, ctx.rank(x), at));
  return ctx.Binary(Binary::kSubtract, real, along);
}

absl::StatusOr<ValueId> TimesScale(NodeContext& ctx, ValueId y, int scale) {
  ASSIGN_OR_RETURN(const ValueId given, ctx.Input(scale));
  ASSIGN_OR_RETURN(const ValueId typed, ctx.Cast(given, ctx.dtype(y)));
  if (ctx.rank(typed) > 1) return ctx.Binary(Binary::kMultiply, y, typed);
  ASSIGN_OR_RETURN(const ValueId along,
                   AlongAxis(ctx, typed, ctx.rank(y), ctx.rank(y) - 1));
  return ctx.Binary(Binary::kMultiply, y, along);
}

absl::Span<const OperatorEntry> QuantizedProductOperators() {
  static constexpr absl::string_view kFamily = "quantisation";
  static const OperatorEntry rows[] = {
      {kMicrosoft, "DynamicQuantizeMatMul", kFamily, kShapes,
       LowerDynamicQuantizeMatMul},
      {kMicrosoft, "MatMulIntegerToFloat", kFamily, kShapes,
       LowerMatMulIntegerToFloat},
      {kMicrosoft, "MatMulNBits", kFamily, kShapes, LowerMatMulNBits},
      {kMicrosoft, "QGemm", kFamily, kShapes, LowerQGemm},
  };
  return rows;
}

}  // namespace gpupool::engine::onnx_import
