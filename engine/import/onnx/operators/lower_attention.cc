// Attention with all of its options, and rotary position embedding, as in ONNX
// since opset 23.
#include <cmath>
#include <utility>

#include "engine/base/status_macros.h"
#include "engine/import/onnx/graph/lowering_parts.h"
#include "engine/import/onnx/graph/lowerings.h"

namespace gpupool::engine::onnx_import {
namespace {

using Binary = BinaryFunction;

struct Attention {
  ValueId q, k, v;    // [batch, heads, tokens, width]
  ValueId mask;       // in q's type; invalid: none
  bool flat = false;  // whether the file has [batch, tokens, heads * width]
  int64_t past = 0;   // keys before the first query
  double scale = 1;
  double softcap = 0;
  bool causal = false;
};

// Reshapes [batch, tokens, heads * width] to [batch, heads, tokens, width].
absl::StatusOr<ValueId> SplitHeads(NodeContext& ctx, ValueId x,
                                   absl::string_view attribute) {
  if (ctx.rank(x) == 4) return x;
  RETURN_IF_ERROR(RequireRank(ctx, x, 3, 4));
  ASSIGN_OR_RETURN(const int64_t heads, ctx.Int(attribute, 0));
  const Shape shape = ctx.shape(x);
  if (heads < 1 || shape[2] % heads != 0) {
    return ctx.Refuse(attribute, " ", heads, " must divide ", shape[2]);
  }
  ASSIGN_OR_RETURN(
      const ValueId split,
      ctx.Reshape(x, {shape[0], shape[1], heads, shape[2] / heads}));
  return ctx.Transpose(split, {0, 2, 1, 3});
}

// Appends keys or values to those of earlier calls, which are input `input`.
absl::StatusOr<ValueId> AfterPast(NodeContext& ctx, ValueId x, int input,
                                  int output) {
  if (ctx.has_input(input)) {
    ASSIGN_OR_RETURN(const ValueId past, ctx.Input(input));
    RETURN_IF_ERROR(RequireRank(ctx, past, 4, 4));
    ASSIGN_OR_RETURN(x, Concat(ctx, {past, x}, 2));
  }
  if (ctx.wants_output(output)) ctx.Set(output, x);
  return x;
}

// Repeats key and value heads that several query heads share.
absl::StatusOr<ValueId> RepeatHeads(NodeContext& ctx, ValueId x,
                                    int64_t heads) {
  const Shape shape = ctx.shape(x);
  if (shape[1] == heads) return x;
  if (heads % shape[1] != 0) {
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

// Returns a score whose exponential is 0. It is finite, so that a row without
// any key has no NaN.
ValueId Hidden(NodeContext& ctx, DType dtype) {
  return ctx.Scalar(dtype, dtype == DType::kFloat16 ? -60000.0 : -1e30);
}

// Turns a mask of bool into one that is added.
absl::StatusOr<ValueId> Additive(NodeContext& ctx, ValueId mask, DType dtype) {
  if (ctx.dtype(mask) != DType::kBool) return ctx.Cast(mask, dtype);
  const ValueId seen = ctx.Scalar(dtype, 0);
  return ctx.Emit(Op::kWhere, {mask, seen, Hidden(ctx, dtype)});
}

// Returns a mask that hides key j from query i where j > i + past.
absl::StatusOr<ValueId> CausalMask(NodeContext& ctx, const Attention& a) {
  const int64_t queries = ctx.shape(a.q)[2];
  const int64_t keys = ctx.shape(a.k)[2];
  ASSIGN_OR_RETURN(const Shape shape, MakeShape(ctx, {queries, keys}));
  RETURN_IF_ERROR(ReserveNumbers(ctx, shape.elements()));
  HostTensor seen{DType::kBool, shape, {}};
  for (int64_t i = 0; i < queries; ++i) {
    for (int64_t j = 0; j < keys; ++j) {
      seen.numbers.push_back(j <= i + a.past ? 1 : 0);
    }
  }
  return Additive(ctx, ctx.Constant(std::move(seen)), ctx.dtype(a.q));
}

absl::Status ReadOperands(NodeContext& ctx, Attention& a) {
  ASSIGN_OR_RETURN(const ValueId q, ctx.Input(0));
  ASSIGN_OR_RETURN(const ValueId k, ctx.Input(1));
  ASSIGN_OR_RETURN(const ValueId v, ctx.Input(2));
  RETURN_IF_ERROR(RequireFloating(ctx, q));
  a.flat = ctx.rank(q) == 3;
  ASSIGN_OR_RETURN(a.q, SplitHeads(ctx, q, "q_num_heads"));
  ASSIGN_OR_RETURN(a.k, SplitHeads(ctx, k, "kv_num_heads"));
  ASSIGN_OR_RETURN(a.v, SplitHeads(ctx, v, "kv_num_heads"));
  const int64_t new_keys = ctx.shape(a.k)[2];
  ASSIGN_OR_RETURN(a.k, AfterPast(ctx, a.k, 4, 1));
  ASSIGN_OR_RETURN(a.v, AfterPast(ctx, a.v, 5, 2));
  // Keys of earlier calls come before the first query.
  a.past = ctx.shape(a.k)[2] - new_keys;
  const int64_t heads = ctx.shape(a.q)[1];
  ASSIGN_OR_RETURN(a.k, RepeatHeads(ctx, a.k, heads));
  ASSIGN_OR_RETURN(a.v, RepeatHeads(ctx, a.v, heads));
  if (ctx.has_input(3)) {
    ASSIGN_OR_RETURN(const ValueId mask, ctx.Input(3));
    ASSIGN_OR_RETURN(a.mask, Additive(ctx, mask, ctx.dtype(a.q)));
  }
  return absl::OkStatus();
}

absl::StatusOr<Attention> ReadAttention(NodeContext& ctx) {
  Attention a;
  RETURN_IF_ERROR(ReadOperands(ctx, a));
  ASSIGN_OR_RETURN(const int64_t causal, ctx.Int("is_causal", 0));
  a.causal = causal != 0;
  const double width = static_cast<double>(ctx.shape(a.q)[3]);
  ASSIGN_OR_RETURN(a.scale, ctx.Float("scale", 1 / std::sqrt(width)));
  ASSIGN_OR_RETURN(a.softcap, ctx.Float("softcap", 0));
  // The op's causal form aligns the last query with the last key.
  const bool aligned = ctx.shape(a.k)[2] - ctx.shape(a.q)[2] == a.past &&
                       a.softcap == 0 && !ctx.wants_output(3);
  if (a.causal && !aligned) {
    ASSIGN_OR_RETURN(const ValueId causal_mask, CausalMask(ctx, a));
    a.causal = false;
    if (a.mask.valid()) {
      ASSIGN_OR_RETURN(a.mask, Plus(ctx, a.mask, causal_mask));
    } else {
      a.mask = causal_mask;
    }
  }
  return a;
}

absl::StatusOr<ValueId> WholeAttention(NodeContext& ctx, const Attention& a) {
  AttentionAttributes attributes;
  attributes.scale = a.scale;
  attributes.causal = a.causal;
  attributes.with_lse = ctx.training();  // for its gradient
  ValueIds inputs{a.q, a.k, a.v};
  if (a.mask.valid()) inputs.push_back(a.mask);
  ASSIGN_OR_RETURN(const ValueIds outputs,
                   ctx.EmitAll(Op::kAttention, inputs, attributes));
  return outputs[0];
}

// Computes attention step by step, for soft caps and when the scores are an
// output. `mode` selects them: 0 scores, 1 with the mask, 2 capped, 3 after
// softmax.
absl::StatusOr<ValueId> StepwiseAttention(NodeContext& ctx,
                                          const Attention& a) {
  ASSIGN_OR_RETURN(const int64_t mode, ctx.Int("qk_matmul_output_mode", 0));
  if (mode < 0 || mode > 3) {
    return ctx.Refuse("qk_matmul_output_mode ", mode, " must be from 0 to 3");
  }
  BatchMatMulAttributes product;
  product.transpose_b = true;
  product.scale = a.scale;
  std::vector<ValueId> shown(4);
  ASSIGN_OR_RETURN(ValueId scores,
                   ctx.Emit(Op::kBatchMatMul, {a.q, a.k}, product));
  shown[0] = scores;
  if (a.mask.valid()) {
    ASSIGN_OR_RETURN(scores, Plus(ctx, scores, a.mask));
  }
  shown[1] = scores;
  if (a.softcap > 0) {
    ASSIGN_OR_RETURN(const ValueId small,
                     ctx.Binary(Binary::kDivide, scores, a.softcap));
    ASSIGN_OR_RETURN(const ValueId tanh, ctx.Emit(Op::kTanh, {small}));
    ASSIGN_OR_RETURN(scores, ctx.Binary(Binary::kMultiply, tanh, a.softcap));
  }
  shown[2] = scores;
  ASSIGN_OR_RETURN(const ValueId weights, ctx.Emit(Op::kSoftmax, {scores}));
  shown[3] = weights;
  if (ctx.wants_output(3)) ctx.Set(3, shown[static_cast<size_t>(mode)]);
  return ctx.Emit(Op::kBatchMatMul, {weights, a.v}, BatchMatMulAttributes{});
}

absl::Status LowerAttention(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const Attention a, ReadAttention(ctx));
  const bool stepwise = a.softcap > 0 || ctx.wants_output(3);
  ASSIGN_OR_RETURN(const ValueId y, stepwise ? StepwiseAttention(ctx, a)
                                             : WholeAttention(ctx, a));
  if (!a.flat) return Finish(ctx, y);
  const Shape shape = ctx.shape(y);
  ASSIGN_OR_RETURN(const ValueId joined, ctx.Transpose(y, {0, 2, 1, 3}));
  return Finish(ctx,
                ctx.Reshape(joined, {shape[0], shape[2], shape[1] * shape[3]}));
}

// Returns the cosines or sines as [batch, tokens, 1, pairs].
absl::StatusOr<ValueId> Angles(NodeContext& ctx, int input, int64_t pairs) {
  ASSIGN_OR_RETURN(ValueId table, ctx.Input(input));
  if (ctx.has_input(3)) {
    ASSIGN_OR_RETURN(const ValueId positions, ctx.Input(3));
    RETURN_IF_ERROR(RequireRank(ctx, table, 2, 2));
    ASSIGN_OR_RETURN(
        table, ctx.Emit(Op::kGather, {table, positions}, AxisAttributes{0}));
  }
  RETURN_IF_ERROR(RequireRank(ctx, table, 3, 3));
  const Shape shape = ctx.shape(table);
  if (shape[2] != pairs) {
    return ctx.Refuse("the tables have ", shape[2], " columns instead of ",
                      pairs);
  }
  return ctx.Reshape(table, {shape[0], shape[1], 1, pairs});
}

struct Rotation {
  int64_t width = 0;  // of the rotated part, even
  bool interleaved = false;
};

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

// Rotates pairs (a, b) to (a cos - b sin, a sin + b cos).
absl::StatusOr<ValueId> Rotate(NodeContext& ctx, ValueId x,
                               const Rotation& rotation) {
  const int64_t pairs = rotation.width / 2;
  ASSIGN_OR_RETURN(const ValueId cos, Angles(ctx, 1, pairs));
  ASSIGN_OR_RETURN(const ValueId sin, Angles(ctx, 2, pairs));
  ASSIGN_OR_RETURN(const ValueId a, HalfOf(ctx, x, rotation, false));
  ASSIGN_OR_RETURN(const ValueId b, HalfOf(ctx, x, rotation, true));
  ASSIGN_OR_RETURN(const ValueId ac, ctx.Binary(Binary::kMultiply, a, cos));
  ASSIGN_OR_RETURN(const ValueId bs, ctx.Binary(Binary::kMultiply, b, sin));
  ASSIGN_OR_RETURN(const ValueId as, ctx.Binary(Binary::kMultiply, a, sin));
  ASSIGN_OR_RETURN(const ValueId bc, ctx.Binary(Binary::kMultiply, b, cos));
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

absl::Status LowerRotary(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const ValueId given, ctx.Input(0));
  RETURN_IF_ERROR(RequireFloating(ctx, given));
  const bool flat = ctx.rank(given) == 3;
  ASSIGN_OR_RETURN(const ValueId heads, SplitHeads(ctx, given, "num_heads"));
  ASSIGN_OR_RETURN(const ValueId x, ctx.Transpose(heads, {0, 2, 1, 3}));
  const int64_t width = ctx.shape(x)[3];
  Rotation rotation;
  ASSIGN_OR_RETURN(rotation.width, ctx.Int("rotary_embedding_dim", 0));
  if (rotation.width == 0) rotation.width = width;
  if (rotation.width < 2 || rotation.width > width || rotation.width % 2 != 0) {
    return ctx.Refuse("rotary_embedding_dim ", rotation.width,
                      " must be even and at most ", width);
  }
  ASSIGN_OR_RETURN(const int64_t interleaved, ctx.Int("interleaved", 0));
  rotation.interleaved = interleaved != 0;
  ASSIGN_OR_RETURN(const ValueId part,
                   SliceAxis(ctx, x, {.axis = 3, .size = rotation.width}));
  ASSIGN_OR_RETURN(ValueId y, Rotate(ctx, part, rotation));
  if (rotation.width < width) {
    ASSIGN_OR_RETURN(const ValueId rest,
                     SliceAxis(ctx, x,
                               {.axis = 3,
                                .start = rotation.width,
                                .size = width - rotation.width}));
    ASSIGN_OR_RETURN(y, Concat(ctx, {y, rest}, 3));
  }
  if (flat) return Finish(ctx, ctx.Reshape(y, ctx.shape(given).dims()));
  return Finish(ctx, ctx.Transpose(y, {0, 2, 1, 3}));
}

constexpr OperatorNeeds kShapes = OperatorNeeds::kShapesOnly;

}  // namespace

absl::Span<const OperatorEntry> AttentionOperators() {
  static constexpr absl::string_view kFamily = "attention";
  static const OperatorEntry rows[] = {
      {"", "Attention", kFamily, kShapes, LowerAttention},
      {"", "RotaryEmbedding", kFamily, kShapes, LowerRotary},
  };
  return rows;
}

}  // namespace gpupool::engine::onnx_import
