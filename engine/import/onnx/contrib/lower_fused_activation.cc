// Activations and softmax that ONNX Runtime's optimizer joins with a bias.
#include "engine/base/status_macros.h"
#include "engine/import/onnx/contrib/contrib_parts.h"
#include "engine/import/onnx/graph/lowering_parts.h"
#include "engine/import/onnx/graph/lowerings.h"

namespace gpupool::engine::onnx_import {
namespace {

using Binary = BinaryFunction;

// Lowers BiasGelu and FastGelu, which approximates with tanh.
template <bool tanh>
absl::Status LowerBiasGelu(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const ValueId given, ctx.Input(0));
  RETURN_IF_ERROR(RequireFloating(ctx, given));
  ASSIGN_OR_RETURN(const ValueId x, PlusInput(ctx, given, 1, "bias"));
  return Finish(ctx, ctx.Emit(Op::kGelu, {x}, GeluAttributes{tanh}));
}

absl::Status LowerQuickGelu(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const ValueId x, ctx.Input(0));
  RETURN_IF_ERROR(RequireFloating(ctx, x));
  ASSIGN_OR_RETURN(const double alpha, ctx.Float("alpha", 1.702));
  ASSIGN_OR_RETURN(const ValueId scaled,
                   ctx.Binary(Binary::kMultiply, x, alpha));
  ASSIGN_OR_RETURN(const ValueId gate, ctx.Emit(Op::kSigmoid, {scaled}));
  return Finish(ctx, ctx.Binary(Binary::kMultiply, x, gate));
}

absl::Status LowerBiasAdd(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const ValueId x, ctx.Input(0));
  ASSIGN_OR_RETURN(const ValueId sum, PlusInput(ctx, x, 1, "bias"));
  return Finish(ctx, PlusInput(ctx, sum, 2, "skip"));
}

// Multiplies the left half of the last axis by the Gelu of the right half.
absl::Status LowerBiasSplitGelu(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const ValueId given, ctx.Input(0));
  RETURN_IF_ERROR(RequireRank(ctx, given, 1));
  RETURN_IF_ERROR(RequireFloating(ctx, given));
  ASSIGN_OR_RETURN(const ValueId x, PlusInput(ctx, given, 1, "bias"));
  const int last = ctx.rank(x) - 1;
  const int64_t cells = ctx.shape(x)[last];
  if (cells % 2 != 0) {
    return ctx.Refuse("the last axis has ", cells, " cells and must be even");
  }
  const int64_t half = cells / 2;
  ASSIGN_OR_RETURN(const ValueId left,
                   SliceAxis(ctx, x, {.axis = last, .size = half}));
  ASSIGN_OR_RETURN(
      const ValueId right,
      SliceAxis(ctx, x, {.axis = last, .start = half, .size = half}));
  ASSIGN_OR_RETURN(const ValueId gate,
                   ctx.Emit(Op::kGelu, {right}, GeluAttributes{}));
  return Finish(ctx, ctx.Binary(Binary::kMultiply, left, gate));
}

// Takes the softmax over all dimensions from the axis on.
absl::Status LowerBiasSoftmax(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const ValueId given, ctx.Input(0));
  RETURN_IF_ERROR(RequireRank(ctx, given, 1));
  RETURN_IF_ERROR(RequireFloating(ctx, given));
  ASSIGN_OR_RETURN(const ValueId x, PlusInput(ctx, given, 1, "bias"));
  ASSIGN_OR_RETURN(const int64_t at, ctx.Int("axis", 1));
  ASSIGN_OR_RETURN(const int axis, ctx.Axis(at, ctx.rank(x)));
  const Shape shape = ctx.shape(x);
  const int64_t dims[] = {Product(shape, 0, axis),
                          Product(shape, axis, shape.rank())};
  ASSIGN_OR_RETURN(const ValueId rows, ctx.Reshape(x, dims));
  ASSIGN_OR_RETURN(const ValueId y, ctx.Emit(Op::kSoftmax, {rows}));
  return Finish(ctx, ctx.Reshape(y, shape.dims()));
}

}  // namespace

absl::Span<const OperatorEntry> FusedActivationOperators() {
  static constexpr absl::string_view kFamily = "activation";
  static const OperatorEntry rows[] = {
      {kMicrosoft, "BiasAdd", kFamily, kShapes, LowerBiasAdd},
      {kMicrosoft, "BiasGelu", kFamily, kShapes, LowerBiasGelu<false>},
      {kMicrosoft, "BiasSoftmax", kFamily, kShapes, LowerBiasSoftmax},
      {kMicrosoft, "BiasSplitGelu", kFamily, kShapes, LowerBiasSplitGelu},
      {kMicrosoft, "FastGelu", kFamily, kShapes, LowerBiasGelu<true>},
      {kMicrosoft, "QuickGelu", kFamily, kShapes, LowerQuickGelu},
  };
  return rows;
}

}  // namespace gpupool::engine::onnx_import
