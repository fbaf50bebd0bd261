// Normalisations that ONNX Runtime's optimizer joins with residual sums and
// with the lookup of embeddings.
#include <vector>

#include "engine/base/status_macros.h"
#include "engine/import/onnx/contrib/contrib_parts.h"
#include "engine/import/onnx/graph/lowering_parts.h"
#include "engine/import/onnx/graph/lowerings.h"
#include "engine/import/onnx/operators/norms.h"

namespace gpupool::engine::onnx_import {
namespace {

using Binary = BinaryFunction;

constexpr double kSkipEpsilon = 1e-12;

absl::StatusOr<double> ReadEpsilon(const NodeContext& ctx) {
  ASSIGN_OR_RETURN(const double epsilon, ctx.Float("epsilon", kSkipEpsilon));
  if (!(epsilon >= 0)) {
    return ctx.Refuse("epsilon ", epsilon, " must be at least 0");
  }
  return epsilon;
}

// Returns input i, a list with one number per cell of x's last axis.
absl::StatusOr<ValueId> PerColumn(NodeContext& ctx, ValueId x, int i,
                                  absl::string_view what) {
  ASSIGN_OR_RETURN(const ValueId list, ctx.Input(i));
  const int64_t columns = ctx.shape(x)[ctx.rank(x) - 1];
  if (ctx.rank(list) == 1 && ctx.shape(list)[0] == columns) return list;
  return ctx.Refuse(what, " is ", ctx.shape(list).ToString(), " and must be [",
                    columns, "]");
}

// The inputs that scale and shift a normalised value.
struct NormInputs {
  int gamma, beta;
};

absl::StatusOr<ValueId> NormalisedRows(NodeContext& ctx, ValueId x,
                                       const NormInputs& inputs) {
  NormAttributes norm;
  ASSIGN_OR_RETURN(norm.epsilon, ReadEpsilon(ctx));
  norm.with_statistics = ctx.training();  // for its gradient
  ASSIGN_OR_RETURN(const ValueId gamma,
                   PerColumn(ctx, x, inputs.gamma, "gamma"));
  ValueId beta;
  if (ctx.has_input(inputs.beta)) {
    ASSIGN_OR_RETURN(beta, PerColumn(ctx, x, inputs.beta, "beta"));
  } else {
    ASSIGN_OR_RETURN(beta, Filled(ctx, ctx.dtype(gamma), ctx.shape(gamma), 0));
  }
  ASSIGN_OR_RETURN(const ValueIds outputs,
                   ctx.EmitAll(Op::kLayerNorm, {x, gamma, beta}, norm));
  return outputs[0];
}

// Returns input + skip + bias. The skip may lack the batch or have one row of
// it.
absl::StatusOr<ValueId> ResidualSum(NodeContext& ctx, int bias) {
  ASSIGN_OR_RETURN(const ValueId x, ctx.Input(0));
  RETURN_IF_ERROR(RequireFloating(ctx, x));
  RETURN_IF_ERROR(RequireRank(ctx, x, 2, 3));
  ASSIGN_OR_RETURN(const ValueId skip, ctx.Input(1));
  ASSIGN_OR_RETURN(const ValueId sum, PlusPart(ctx, x, skip, "skip"));
  ASSIGN_OR_RETURN(const ValueId y, PlusInput(ctx, sum, bias, "bias"));
  ctx.Set(3, y);
  return y;
}

absl::Status LowerSkipLayerNorm(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const ValueId x, ResidualSum(ctx, 4));
  return Finish(ctx, NormalisedRows(ctx, x, {.gamma = 2, .beta = 3}));
}

absl::Status LowerSkipRmsNorm(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const ValueId x, ResidualSum(ctx, 3));
  ASSIGN_OR_RETURN(const double epsilon, ReadEpsilon(ctx));
  ASSIGN_OR_RETURN(const ValueId gamma, PerColumn(ctx, x, 2, "gamma"));
  ASSIGN_OR_RETURN(
      const RmsNorm norm,
      RmsNormOf(ctx, x, gamma, {.axis = ctx.rank(x) - 1, .epsilon = epsilon}));
  return Finish(ctx, norm.y);
}

// Returns the rows of table `table` for the ids of input `ids`.
absl::StatusOr<ValueId> Lookup(NodeContext& ctx, int table, int ids) {
  ASSIGN_OR_RETURN(const ValueId rows, ctx.Input(table));
  RETURN_IF_ERROR(RequireRank(ctx, rows, 2, 2));
  ASSIGN_OR_RETURN(const ValueId at, ctx.Input(ids));
  RETURN_IF_ERROR(RequireRank(ctx, at, 2, 2));
  return ctx.Emit(Op::kGather, {rows, at}, AxisAttributes{0});
}

// Returns the embeddings of the positions 0, 1, ..., or of those of input 8.
absl::StatusOr<ValueId> PositionRows(NodeContext& ctx, int64_t tokens) {
  if (ctx.has_input(8)) return Lookup(ctx, 3, 8);
  ASSIGN_OR_RETURN(const ValueId table, ctx.Input(3));
  RETURN_IF_ERROR(RequireRank(ctx, table, 2, 2));
  if (ctx.shape(table)[0] < tokens) {
    return ctx.Refuse("the position embedding has ", ctx.shape(table)[0],
                      " rows for ", tokens, " tokens");
  }
  return SliceAxis(ctx, table, {.axis = 0, .size = tokens});
}

// Returns for each row how many numbers of the mask, input 7, are 1, as int32.
absl::StatusOr<ValueId> MaskCounts(NodeContext& ctx, int64_t batch) {
  if (!ctx.has_input(7)) {
    ASSIGN_OR_RETURN(const Shape shape, MakeShape(ctx, {batch}));
    return Filled(ctx, DType::kInt32, shape, 0);
  }
  ASSIGN_OR_RETURN(const ValueId mask, ctx.Input(7));
  RETURN_IF_ERROR(RequireRank(ctx, mask, 2, 2));
  ASSIGN_OR_RETURN(const ValueId ones, ctx.Binary(Binary::kEqual, mask, 1.0));
  ASSIGN_OR_RETURN(const ValueId numbers, ctx.Cast(ones, DType::kFloat32));
  ASSIGN_OR_RETURN(const ValueId counts,
                   ctx.Reduce(ReduceFunction::kSum, numbers, {1}, false));
  return ctx.Cast(counts, DType::kInt32);
}

absl::Status LowerEmbedLayerNorm(NodeContext& ctx) {
  ASSIGN_OR_RETURN(ValueId sum, Lookup(ctx, 2, 0));
  const Shape shape = ctx.shape(sum);
  ASSIGN_OR_RETURN(const ValueId positions, PositionRows(ctx, shape[1]));
  ASSIGN_OR_RETURN(sum, PlusPart(ctx, sum, positions, "position embedding"));
  if (ctx.has_input(1) != ctx.has_input(4)) {
    return ctx.Refuse("segment_ids and the segment embedding need each other");
  }
  if (ctx.has_input(1)) {
    ASSIGN_OR_RETURN(const ValueId segments, Lookup(ctx, 4, 1));
    ASSIGN_OR_RETURN(sum, PlusPart(ctx, sum, segments, "segment embedding"));
  }
  if (ctx.wants_output(1)) {
    ASSIGN_OR_RETURN(const ValueId counts, MaskCounts(ctx, shape[0]));
    ctx.Set(1, counts);
  }
  ctx.Set(2, sum);
  return Finish(ctx, NormalisedRows(ctx, sum, {.gamma = 5, .beta = 6}));
}

}  // namespace

absl::Span<const OperatorEntry> SkipNormOperators() {
  static constexpr absl::string_view kFamily = "normalisation";
  static const OperatorEntry rows[] = {
      {kMicrosoft, "EmbedLayerNormalization", kFamily, kShapes,
       LowerEmbedLayerNorm},
      {kMicrosoft, "SkipLayerNormalization", kFamily, kShapes,
       LowerSkipLayerNorm},
      {kMicrosoft, "SkipSimplifiedLayerNormalization", kFamily, kShapes,
       LowerSkipRmsNorm},
  };
  return rows;
}

}  // namespace gpupool::engine::onnx_import
