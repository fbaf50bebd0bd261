#include "engine/import/onnx/contrib/head_attention.h"

#include <cmath>
#include <vector>

#include "engine/base/status_macros.h"
#include "engine/import/onnx/graph/lowering_parts.h"

namespace gpupool::engine::onnx_import {
namespace {

using Binary = BinaryFunction;

// Computes the softmax of the scores and, if there is one, of the sink, whose
// weight is dropped.
absl::StatusOr<ValueId> Weights(NodeContext& ctx, const HeadAttention& a,
                                ValueId scores) {
  if (!a.sink.valid()) return ctx.Emit(Op::kSoftmax, {scores});
  std::vector<int64_t> dims = Dims(ctx.shape(scores));
  const int64_t keys = dims[3];
  dims[3] = 1;
  ASSIGN_OR_RETURN(const Shape shape, MakeShape(ctx, dims));
  ASSIGN_OR_RETURN(const ValueId sink, ctx.BroadcastTo(a.sink, shape));
  ASSIGN_OR_RETURN(const ValueId all, Concat(ctx, {scores, sink}, 3));
  ASSIGN_OR_RETURN(const ValueId weights, ctx.Emit(Op::kSoftmax, {all}));
  return SliceAxis(ctx, weights, {.axis = 3, .size = keys});
}

absl::StatusOr<ValueId> Stepwise(NodeContext& ctx, const HeadAttention& a) {
  ASSIGN_OR_RETURN(ValueId scores, AttentionScores(ctx, a));
  ASSIGN_OR_RETURN(scores, CappedScores(ctx, scores, a.softcap));
  if (a.bias.valid()) {
    ASSIGN_OR_RETURN(scores, Plus(ctx, scores, a.bias));
  }
  ASSIGN_OR_RETURN(const ValueId weights, Weights(ctx, a, scores));
  return ctx.Emit(Op::kBatchMatMul, {weights, a.v}, BatchMatMulAttributes{});
}

// Returns the bool [queries, keys] whether a query sees a key that is not after
// it. The last query is at the last key.
absl::StatusOr<ValueId> NotLater(NodeContext& ctx, int64_t queries,
                                 int64_t keys) {
  ASSIGN_OR_RETURN(ValueId query, Positions(ctx, queries));
  ASSIGN_OR_RETURN(query, ctx.Reshape(query, {queries, 1}));
  ASSIGN_OR_RETURN(query, ctx.Binary(Binary::kAdd, query,
                                     static_cast<double>(keys - queries)));
  ASSIGN_OR_RETURN(ValueId key, Positions(ctx, keys));
  ASSIGN_OR_RETURN(key, ctx.Reshape(key, {1, keys}));
  return ctx.Binary(Binary::kLessOrEqual, key, query);
}

// Returns the bool [batch, 1, 1, keys] of a mask of ends, or of ends and first
// keys.
absl::StatusOr<ValueId> WithinEnds(NodeContext& ctx, ValueId given,
                                   const PaddingMask& mask) {
  ASSIGN_OR_RETURN(const ValueId numbers, ctx.Cast(given, DType::kInt64));
  ASSIGN_OR_RETURN(ValueId key, Positions(ctx, mask.keys));
  ASSIGN_OR_RETURN(key, ctx.Reshape(key, {1, 1, 1, mask.keys}));
  const auto part = [&](int64_t first) -> absl::StatusOr<ValueId> {
    ASSIGN_OR_RETURN(
        const ValueId list,
        SliceAxis(ctx, numbers,
                  {.axis = 0, .start = first, .size = mask.batch}));
    return ctx.Reshape(list, {mask.batch, 1, 1, 1});
  };
  ASSIGN_OR_RETURN(const ValueId end, part(0));
  ASSIGN_OR_RETURN(const ValueId before, ctx.Binary(Binary::kLess, key, end));
  if (ctx.shape(numbers)[0] == mask.batch) return before;
  ASSIGN_OR_RETURN(const ValueId first, part(mask.batch));
  ASSIGN_OR_RETURN(const ValueId from,
                   ctx.Binary(Binary::kGreaterOrEqual, key, first));
  return ctx.Binary(Binary::kAnd, before, from);
}

// Returns the bool of a mask with a number per key, with 4 dimensions.
absl::StatusOr<ValueId> PerKey(NodeContext& ctx, ValueId given,
                               const PaddingMask& mask) {
  const Shape shape = ctx.shape(given);
  const int rank = shape.rank();
  ValueId cells = given;
  std::vector<int64_t> dims{mask.batch, 1, 1, mask.keys};
  if (rank >= 3) dims[2] = mask.queries;
  if (rank == 4 && shape[1] == 1 && shape[2] >= mask.keys &&
      shape[3] >= mask.keys) {
    ASSIGN_OR_RETURN(cells, SliceAxis(ctx, cells,
                                      {.axis = 2,
                                       .start = mask.keys - mask.queries,
                                       .size = mask.queries}));
    ASSIGN_OR_RETURN(cells,
                     SliceAxis(ctx, cells, {.axis = 3, .size = mask.keys}));
  }
  ASSIGN_OR_RETURN(const Shape wanted, MakeShape(ctx, dims));
  if (ctx.shape(cells).elements() != wanted.elements()) {
    return ctx.Refuse("the mask is ", shape.ToString(), " for ", mask.batch,
                      " sequences of ", mask.queries, " queries and ",
                      mask.keys, " keys");
  }
  ASSIGN_OR_RETURN(const ValueId shaped, ctx.Reshape(cells, dims));
  if (ctx.dtype(shaped) == DType::kBool) return shaped;
  return ctx.Binary(Binary::kGreater, shaped, 0.0);
}

}  // namespace

absl::StatusOr<ValueId> AttendHeads(NodeContext& ctx, const HeadAttention& a) {
  if (a.softcap > 0 || a.sink.valid()) {
    ASSIGN_OR_RETURN(const ValueId y, Stepwise(ctx, a));
    return JoinHeads(ctx, y);
  }
  ASSIGN_OR_RETURN(const ValueId y, EmitAttention(ctx, a));
  return JoinHeads(ctx, y);
}

absl::StatusOr<double> ReadScale(const NodeContext& ctx, int64_t width) {
  ASSIGN_OR_RETURN(const double scale, ctx.Float("scale", 0));
  return scale != 0 ? scale : 1 / std::sqrt(static_cast<double>(width));
}

absl::StatusOr<int64_t> ReadHeads(const NodeContext& ctx,
                                  absl::string_view name) {
  ASSIGN_OR_RETURN(const int64_t heads, ctx.Int(name, 0));
  if (heads < 1) return ctx.Refuse(name, " ", heads, " must be at least 1");
  return heads;
}

absl::StatusOr<ValueId> ReadPaddingMask(NodeContext& ctx,
                                        const PaddingMask& mask, DType dtype) {
  if (!ctx.has_input(mask.input)) return ValueId();
  ASSIGN_OR_RETURN(const double filter, ctx.Float("mask_filter_value", -10000));
  ASSIGN_OR_RETURN(const ValueId given, ctx.Input(mask.input));
  RETURN_IF_ERROR(RequireRank(ctx, given, 1, 4));
  const Shape shape = ctx.shape(given);
  const bool ends = shape.rank() == 1;
  if (ends && shape[0] != mask.batch && shape[0] != 2 * mask.batch) {
    return ctx.Unsupported("a mask ", shape.ToString(), " for ", mask.batch,
                           " sequences is not; one with 1 or 2 numbers for ",
                           "each sequence is");
  }
  ASSIGN_OR_RETURN(const ValueId counts, ends ? WithinEnds(ctx, given, mask)
                                              : PerKey(ctx, given, mask));
  return ctx.Emit(Op::kWhere,
                  {counts, ctx.Scalar(dtype, 0), ctx.Scalar(dtype, filter)});
}

absl::Status HideUnseenKeys(NodeContext& ctx, ValueId seen, HeadAttention& a) {
  const DType dtype = ctx.dtype(a.q);
  const ValueId added = a.bias.valid() ? a.bias : ctx.Scalar(dtype, 0);
  ASSIGN_OR_RETURN(
      a.bias, ctx.Emit(Op::kWhere,
                       {seen, added, ctx.Scalar(dtype, HiddenScore(dtype))}));
  return absl::OkStatus();
}

absl::Status HideLaterKeys(NodeContext& ctx, HeadAttention& a) {
  if (!a.bias.valid() && a.softcap == 0 && !a.sink.valid()) {
    a.causal = true;
    return absl::OkStatus();
  }
  const int64_t queries = ctx.shape(a.q)[2];
  const int64_t keys = ctx.shape(a.k)[2];
  ASSIGN_OR_RETURN(const ValueId seen, NotLater(ctx, queries, keys));
  return HideUnseenKeys(ctx, seen, a);
}

absl::Status AddBias(NodeContext& ctx, int i, HeadAttention& a) {
  if (!ctx.has_input(i)) return absl::OkStatus();
  ASSIGN_OR_RETURN(const ValueId given, ctx.Input(i));
  ASSIGN_OR_RETURN(const ValueId bias, ctx.Cast(given, ctx.dtype(a.q)));
  ASSIGN_OR_RETURN(const Shape scores,
                   MakeShape(ctx, {ctx.shape(a.q)[0], ctx.shape(a.q)[1],
                                   ctx.shape(a.q)[2], ctx.shape(a.k)[2]}));
  ASSIGN_OR_RETURN(const Shape both,
                   BroadcastShape(ctx, scores, ctx.shape(bias)));
  if (both != scores) {
    return ctx.Refuse("attention_bias ", ctx.shape(bias).ToString(),
                      " does not broadcast to the scores ", scores.ToString());
  }
  if (!a.bias.valid()) {
    a.bias = bias;
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(a.bias, Plus(ctx, a.bias, bias));
  return absl::OkStatus();
}

}  // namespace gpupool::engine::onnx_import
