// Matrix products.
#include <utility>

#include "engine/base/status_macros.h"
#include "engine/import/onnx/graph/lowering_parts.h"
#include "engine/import/onnx/graph/lowerings.h"
#include "engine/import/onnx/operators/products.h"

namespace gpupool::engine::onnx_import {
namespace {

using Binary = BinaryFunction;

// Multiplies a [..., k] by a matrix b, as one product of two matrices.
absl::StatusOr<ValueId> RowsTimesMatrix(NodeContext& ctx, ValueId a,
                                        ValueId b) {
  const Shape shape = ctx.shape(a);
  const int last = shape.rank() - 1;
  // The product of matrices takes no empty ones.
  if (shape.elements() == 0 || ctx.shape(b).elements() == 0) {
    return ctx.Emit(Op::kBatchMatMul, {a, b}, BatchMatMulAttributes{});
  }
  const int64_t flat[] = {Product(shape, 0, last), shape[last]};
  ASSIGN_OR_RETURN(const ValueId rows, ctx.Reshape(a, flat));
  ASSIGN_OR_RETURN(const ValueId y,
                   ctx.Emit(Op::kMatMul, {rows, b}, MatMulAttributes{}));
  std::vector<int64_t> dims = Dims(shape);
  dims.back() = ctx.shape(b)[1];
  return ctx.Reshape(y, dims);
}

absl::Status LowerMatMul(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const ValueId a, ctx.Input(0));
  ASSIGN_OR_RETURN(const ValueId b, ctx.Input(1));
  return Finish(ctx, MatrixProduct(ctx, a, b));
}

struct GemmOperands {
  ValueId a, b;
  bool transpose_a = false;
  bool transpose_b = false;
  double alpha = 1;
  double beta = 1;
};

absl::StatusOr<GemmOperands> ReadGemm(NodeContext& ctx) {
  GemmOperands gemm;
  ASSIGN_OR_RETURN(gemm.a, ctx.Input(0));
  ASSIGN_OR_RETURN(gemm.b, ctx.Input(1));
  RETURN_IF_ERROR(RequireRank(ctx, gemm.a, 2, 2));
  RETURN_IF_ERROR(RequireRank(ctx, gemm.b, 2, 2));
  ASSIGN_OR_RETURN(const int64_t transpose_a, ctx.Int("transA", 0));
  ASSIGN_OR_RETURN(const int64_t transpose_b, ctx.Int("transB", 0));
  gemm.transpose_a = transpose_a != 0;
  gemm.transpose_b = transpose_b != 0;
  ASSIGN_OR_RETURN(gemm.alpha, ctx.Float("alpha", 1));
  ASSIGN_OR_RETURN(gemm.beta, ctx.Float("beta", 1));
  return gemm;
}

absl::StatusOr<ValueId> TimesNumber(NodeContext& ctx, ValueId x,
                                    double number) {
  return number == 1 ? x : ctx.Binary(Binary::kMultiply, x, number);
}

absl::StatusOr<ValueId> PlainProduct(NodeContext& ctx,
                                     const GemmOperands& gemm) {
  BatchMatMulAttributes product;
  product.transpose_a = gemm.transpose_a;
  product.transpose_b = gemm.transpose_b;
  return ctx.Emit(Op::kBatchMatMul, {gemm.a, gemm.b}, product);
}

absl::Status LowerGemm(NodeContext& ctx) { return Finish(ctx, Gemm(ctx)); }

}  // namespace

absl::StatusOr<ValueId> MatrixProduct(NodeContext& ctx, ValueId a, ValueId b) {
  RETURN_IF_ERROR(RequireRank(ctx, a, 1));
  RETURN_IF_ERROR(RequireRank(ctx, b, 1));
  const bool row = ctx.rank(a) == 1;
  const bool column = ctx.rank(b) == 1;
  if (row) {
    const int64_t dims[] = {1, ctx.shape(a)[0]};
    ASSIGN_OR_RETURN(a, ctx.Reshape(a, dims));
  }
  if (column) {
    const int64_t dims[] = {ctx.shape(b)[0], 1};
    ASSIGN_OR_RETURN(b, ctx.Reshape(b, dims));
  }
  ValueId y;
  if (ctx.rank(b) == 2 && IsFloating(ctx.dtype(a))) {
    ASSIGN_OR_RETURN(y, RowsTimesMatrix(ctx, a, b));
  } else {
    ASSIGN_OR_RETURN(
        y, ctx.Emit(Op::kBatchMatMul, {a, b}, BatchMatMulAttributes{}));
  }
  if (!row && !column) return y;
  std::vector<int64_t> dims = Dims(ctx.shape(y));
  if (column) dims.pop_back();
  if (row) dims.erase(dims.end() - (column ? 1 : 2));
  return ctx.Reshape(y, dims);
}

absl::StatusOr<ValueId> Gemm(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const GemmOperands gemm, ReadGemm(ctx));
  const bool has_c = ctx.has_input(2) && gemm.beta != 0;
  ValueId c;
  if (has_c) {
    ASSIGN_OR_RETURN(const ValueId given, ctx.Input(2));
    ASSIGN_OR_RETURN(c, TimesNumber(ctx, given, gemm.beta));
  }
  MatMulAttributes product;
  product.transpose_a = gemm.transpose_a;
  product.transpose_b = gemm.transpose_b;
  const int64_t columns = ctx.shape(gemm.b)[gemm.transpose_b ? 0 : 1];
  ValueId y;
  // The product of floating matrices takes no empty ones.
  if (!IsFloating(ctx.dtype(gemm.a)) || ctx.shape(gemm.a).elements() == 0 ||
      ctx.shape(gemm.b).elements() == 0) {
    ASSIGN_OR_RETURN(y, PlainProduct(ctx, gemm));
  } else if (has_c && gemm.alpha == 1 && ctx.rank(c) >= 1 && ctx.rank(c) <= 2 &&
             ctx.shape(c).elements() == columns &&
             ctx.shape(c)[ctx.rank(c) - 1] == columns) {
    // A C with one number per column is a bias, which the product adds itself.
    product.epilogue.bias = true;
    const int64_t flat[] = {columns};
    ASSIGN_OR_RETURN(const ValueId bias, ctx.Reshape(c, flat));
    return ctx.Emit(Op::kMatMul, {gemm.a, gemm.b, bias}, product);
  } else {
    ASSIGN_OR_RETURN(y, ctx.Emit(Op::kMatMul, {gemm.a, gemm.b}, product));
  }
  ASSIGN_OR_RETURN(y, TimesNumber(ctx, y, gemm.alpha));
  if (!has_c) return y;
  ASSIGN_OR_RETURN(const Shape shape,
                   BroadcastShape(ctx, ctx.shape(y), ctx.shape(c)));
  if (shape != ctx.shape(y)) {
    return ctx.Refuse("C ", ctx.shape(c).ToString(), " does not broadcast to ",
                      ctx.shape(y).ToString());
  }
  return Plus(ctx, y, c);
}

absl::Span<const OperatorEntry> MatMulOperators() {
  static constexpr absl::string_view kFamily = "products";
  static const OperatorEntry rows[] = {
      {"", "Gemm", kFamily, kShapes, LowerGemm},
      {"", "MatMul", kFamily, kShapes, LowerMatMul},
  };
  return rows;
}

}  // namespace gpupool::engine::onnx_import
