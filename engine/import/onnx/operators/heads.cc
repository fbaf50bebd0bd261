#include "engine/import/onnx/operators/heads.h"

#include <vector>

#include "engine/base/status_macros.h"
#include "engine/import/onnx/graph/lowering_parts.h"

namespace gpupool::engine::onnx_import {
namespace {

using Binary = BinaryFunction;

// Returns the first or second numbers of all pairs of x [..., width].
absl::StatusOr<ValueId> HalfOf(NodeContext& ctx, ValueId x,
                               const Rotation& rotation, bool second) {
  const int64_t pairs = rotation.width / 2;
  if (rotation.interleaved) {
    return SliceAxis(ctx, x,
                     {.axis = 3, .start = second, .size = pairs, .step = 2});
  }
  return SliceAxis(ctx, x,
                   {.axis = 3, .start = second ? pairs : 0, .size = pairs});
}

absl::StatusOr<ValueId> RotatePairs(NodeContext& ctx, ValueId x,
                                    const Rotation& rotation) {
  ASSIGN_OR_RETURN(const ValueId a, HalfOf(ctx, x, rotation, false));
  ASSIGN_OR_RETURN(const ValueId b, HalfOf(ctx, x, rotation, true));
  const auto times = [&ctx](ValueId half, ValueId angle) {
    return ctx.Binary(Binary::kMultiply, half, angle);
  };
  ASSIGN_OR_RETURN(const ValueId ac, times(a, rotation.cos));
  ASSIGN_OR_RETURN(const ValueId bs, times(b, rotation.sin));
  ASSIGN_OR_RETURN(const ValueId as, times(a, rotation.sin));
  ASSIGN_OR_RETURN(const ValueId bc, times(b, rotation.cos));
  ASSIGN_OR_RETURN(const ValueId first, ctx.Binary(Binary::kSubtract, ac, bs));
  ASSIGN_OR_RETURN(const ValueId second, Plus(ctx, as, bc));
  if (!rotation.interleaved) return Concat(ctx, {first, second}, 3);
  // Interleaves both halves again.
  std::vector<int64_t> dims = Dims(ctx.shape(first));
  dims.push_back(1);
  ASSIGN_OR_RETURN(const ValueId left, ctx.Reshape(first, dims));
  ASSIGN_OR_RETURN(const ValueId right, ctx.Reshape(second, dims));
  ASSIGN_OR_RETURN(const ValueId both, Concat(ctx, {left, right}, 4));
  dims.pop_back();
  dims.back() = rotation.width;
  return ctx.Reshape(both, dims);
}

}  // namespace

absl::StatusOr<ValueId> SplitHeads(NodeContext& ctx, ValueId x, int64_t heads) {
  RETURN_IF_ERROR(RequireRank(ctx, x, 3, 3));
  const Shape shape = ctx.shape(x);
  if (heads < 1 || shape[2] % heads != 0) {
    return ctx.Refuse("the number of heads, ", heads, ", must divide ",
                      shape[2]);
  }
  ASSIGN_OR_RETURN(
      const ValueId split,
      ctx.Reshape(x, {shape[0], shape[1], heads, shape[2] / heads}));
  return ctx.Transpose(split, {0, 2, 1, 3});
}

absl::StatusOr<ValueId> JoinHeads(NodeContext& ctx, ValueId x) {
  const Shape shape = ctx.shape(x);
  ASSIGN_OR_RETURN(const ValueId joined, ctx.Transpose(x, {0, 2, 1, 3}));
  return ctx.Reshape(joined, {shape[0], shape[2], shape[1] * shape[3]});
}

absl::StatusOr<ValueId> RepeatHeads(NodeContext& ctx, ValueId x,
                                    int64_t heads) {
  const Shape shape = ctx.shape(x);
  if (shape[1] == heads) return x;
  if (shape[1] == 0 || heads % shape[1] != 0) {
    return ctx.Refuse(heads, " query heads are no multiple of ", shape[1],
                      " key and value heads");
  }
  ASSIGN_OR_RETURN(const ValueId one,
                   ctx.Reshape(x, {shape[0], shape[1], 1, shape[2], shape[3]}));
  ASSIGN_OR_RETURN(const Shape many,
                   MakeShape(ctx, {shape[0], shape[1], heads / shape[1],
                                   shape[2], shape[3]}));
  ASSIGN_OR_RETURN(const ValueId copies, ctx.BroadcastTo(one, many));
  return ctx.Reshape(copies, {shape[0], heads, shape[2], shape[3]});
}

double HiddenScore(DType dtype) {
  return dtype == DType::kFloat16 ? -60000.0 : -1e30;
}

absl::StatusOr<ValueId> EmitAttention(NodeContext& ctx,
                                      const HeadAttention& a) {
  AttentionAttributes attributes;
  attributes.scale = a.scale;
  attributes.causal = a.causal;
  attributes.with_lse = ctx.training();  // for its gradient
  ValueIds inputs{a.q, a.k, a.v};
  if (a.bias.valid()) inputs.push_back(a.bias);
  ASSIGN_OR_RETURN(const ValueIds outputs,
                   ctx.EmitAll(Op::kAttention, inputs, attributes));
  return outputs[0];
}

absl::StatusOr<ValueId> AttentionScores(NodeContext& ctx,
                                        const HeadAttention& a) {
  BatchMatMulAttributes product;
  product.transpose_b = true;
  product.scale = a.scale;
  return ctx.Emit(Op::kBatchMatMul, {a.q, a.k}, product);
}

absl::StatusOr<ValueId> CappedScores(NodeContext& ctx, ValueId scores,
                                     double softcap) {
  if (softcap <= 0) return scores;
  ASSIGN_OR_RETURN(const ValueId small,
                   ctx.Binary(BinaryFunction::kDivide, scores, softcap));
  ASSIGN_OR_RETURN(const ValueId tanh, ctx.Emit(Op::kTanh, {small}));
  return ctx.Binary(BinaryFunction::kMultiply, tanh, softcap);
}

absl::Status CheckRotation(const NodeContext& ctx, int64_t width,
                           int64_t head_width) {
  if (width >= 2 && width <= head_width && width % 2 == 0) {
    return absl::OkStatus();
  }
  return ctx.Refuse("rotary_embedding_dim ", width,
                    " must be even, at least 2 and at most ", head_width);
}

absl::StatusOr<Rotation> ReadRotation(const NodeContext& ctx,
                                      int64_t head_width) {
  Rotation rotation;
  ASSIGN_OR_RETURN(rotation.width, ctx.Int("rotary_embedding_dim", 0));
  if (rotation.width == 0) rotation.width = head_width;
  RETURN_IF_ERROR(CheckRotation(ctx, rotation.width, head_width));
  ASSIGN_OR_RETURN(const int64_t interleaved, ctx.Int("interleaved", 0));
  rotation.interleaved = interleaved != 0;
  return rotation;
}

absl::StatusOr<ValueId> RotateHeads(NodeContext& ctx, ValueId x,
                                    const Rotation& rotation) {
  const int64_t width = ctx.shape(x)[3];
  ASSIGN_OR_RETURN(const ValueId part,
                   SliceAxis(ctx, x, {.axis = 3, .size = rotation.width}));
  ASSIGN_OR_RETURN(const ValueId y, RotatePairs(ctx, part, rotation));
  if (rotation.width == width) return y;
  ASSIGN_OR_RETURN(const ValueId rest,
                   SliceAxis(ctx, x,
                             {.axis = 3,
                              .start = rotation.width,
                              .size = width - rotation.width}));
  return Concat(ctx, {y, rest}, 3);
}

}  // namespace gpupool::engine::onnx_import
