// Attention with all of its options, and rotary position embedding, as in ONNX
// since opset 23.
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "engine/base/status_macros.h"
#include "engine/import/onnx/graph/lowering_parts.h"
#include "engine/import/onnx/graph/lowerings.h"
#include "engine/import/onnx/operators/heads.h"

namespace gpupool::engine::onnx_import {
namespace {

using Binary = BinaryFunction;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Attention : HeadAttention {
  ValueId visible;    // bool: the query sees the key; invalid: all do
  bool flat = false;  // whether the file has [batch, tokens, heads * width]
  int64_t past = 0;   // keys before the first query
};

// The keys that a query sees: from `left` before its own position to `right`
// after it. Negative: without an end.
struct Window {
  int64_t left = -1, right = -1;
  bool is_open() const { return left < 0 && right < 0; }
};

// Returns x as [batch, heads, tokens, width]. The attribute has the heads of a
// value [batch, tokens, heads * width].
absl::StatusOr<ValueId> HeadsOf(NodeContext& ctx, ValueId x,
                                absl::string_view attribute) {
  if (ctx.rank(x) == 4) return x;
  ASSIGN_OR_RETURN(const int64_t heads, ctx.Int(attribute, 0));
  return SplitHeads(ctx, x, heads);
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

// Adds columns for the keys beyond the end of a mask, which are hidden.
absl::StatusOr<ValueId> ForAllKeys(NodeContext& ctx, ValueId mask,
                                   int64_t keys) {
  const Shape shape = ctx.shape(mask);
  const int last = shape.rank() - 1;
  if (shape[last] == keys || shape[last] == 1) return mask;
  if (shape[last] > keys) {
    return ctx.Refuse("the mask has ", shape[last], " columns for ", keys,
                      " keys");
  }
  std::vector<int64_t> missing = Dims(shape);
  missing.back() = keys - shape[last];
  ASSIGN_OR_RETURN(const Shape rest, MakeShape(ctx, missing));
  const double hidden = ctx.dtype(mask) == DType::kBool ? 0 : -kInfinity;
  ASSIGN_OR_RETURN(const ValueId columns,
                   Filled(ctx, ctx.dtype(mask), rest, hidden));
  return Concat(ctx, {mask, columns}, last);
}

// Reads the mask, input 3. One of bool hides keys. One of numbers is added, and
// hides keys where it is minus infinity.
absl::Status ReadMask(NodeContext& ctx, Attention& a) {
  if (!ctx.has_input(3)) return absl::OkStatus();
  ASSIGN_OR_RETURN(ValueId mask, ctx.Input(3));
  RETURN_IF_ERROR(RequireRank(ctx, mask, 1, 4));
  const DType dtype = ctx.dtype(a.q);
  const bool hides = ctx.dtype(mask) == DType::kBool;
  if (!hides) {
    ASSIGN_OR_RETURN(mask, ctx.Cast(mask, dtype));
  }
  ASSIGN_OR_RETURN(mask, ForAllKeys(ctx, mask, ctx.shape(a.k)[2]));
  if (hides) {
    a.visible = mask;
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(a.visible, ctx.Binary(Binary::kGreater, mask, -kInfinity));
  ASSIGN_OR_RETURN(a.bias,
                   ctx.Binary(Binary::kMaximum, mask, HiddenScore(dtype)));
  return absl::OkStatus();
}

absl::StatusOr<Window> ReadWindow(NodeContext& ctx, bool causal) {
  Window window;
  ASSIGN_OR_RETURN(window.left, ctx.Int("left_window_size", -1));
  ASSIGN_OR_RETURN(window.right, ctx.Int("right_window_size", -1));
  if (window.left < -1 || window.right < -1) {
    return ctx.Refuse("the window sizes ", window.left, " and ", window.right,
                      " must be at least -1");
  }
  if (causal) window.right = 0;
  return window;
}

// Returns the bool [queries, keys] whether query i, at position i + past, sees
// key j.
absl::StatusOr<ValueId> SeenFromPast(NodeContext& ctx, const Attention& a,
                                     const Window& window) {
  const int64_t queries = ctx.shape(a.q)[2];
  const int64_t keys = ctx.shape(a.k)[2];
  ASSIGN_OR_RETURN(const Shape shape, MakeShape(ctx, {queries, keys}));
  RETURN_IF_ERROR(ReserveNumbers(ctx, shape.elements()));
  HostTensor seen{DType::kBool, shape, {}};
  for (int64_t i = 0; i < queries; ++i) {
    for (int64_t j = 0; j < keys; ++j) {
      const int64_t after = j - (i + a.past);
      const bool is_seen = (window.left < 0 || -after <= window.left) &&
                           (window.right < 0 || after <= window.right);
      seen.numbers.push_back(is_seen ? 1 : 0);
    }
  }
  return ctx.Constant(std::move(seen));
}

// Returns the bool [batch, 1, queries or 1, keys] whether a query sees a key
// among the first `counts` [batch] keys. The last of these is at the position
// of the last query.
absl::StatusOr<ValueId> SeenOfCounts(NodeContext& ctx, const Attention& a,
                                     const Window& window, ValueId counts) {
  const int64_t queries = ctx.shape(a.q)[2];
  const int64_t keys = ctx.shape(a.k)[2];
  ASSIGN_OR_RETURN(counts, ctx.Cast(counts, DType::kInt64));
  RETURN_IF_ERROR(RequireRank(ctx, counts, 1, 1));
  ASSIGN_OR_RETURN(counts,
                   ctx.Reshape(counts, {ctx.shape(counts)[0], 1, 1, 1}));
  ASSIGN_OR_RETURN(ValueId key, Positions(ctx, keys));
  ASSIGN_OR_RETURN(key, ctx.Reshape(key, {1, 1, 1, keys}));
  ASSIGN_OR_RETURN(ValueId seen, ctx.Binary(Binary::kLess, key, counts));
  if (window.is_open()) return seen;
  ASSIGN_OR_RETURN(ValueId query, Positions(ctx, queries));
  ASSIGN_OR_RETURN(query, ctx.Reshape(query, {1, 1, queries, 1}));
  ASSIGN_OR_RETURN(query, ctx.Binary(Binary::kAdd, query, counts));
  const auto within = [&](Binary compare, double offset) -> absl::Status {
    ASSIGN_OR_RETURN(
        const ValueId end,
        ctx.Binary(Binary::kAdd, query, offset - static_cast<double>(queries)));
    ASSIGN_OR_RETURN(const ValueId inside, ctx.Binary(compare, key, end));
    ASSIGN_OR_RETURN(seen, ctx.Binary(Binary::kAnd, seen, inside));
    return absl::OkStatus();
  };
  if (window.right >= 0) {
    RETURN_IF_ERROR(
        within(Binary::kLessOrEqual, static_cast<double>(window.right)));
  }
  if (window.left >= 0) {
    RETURN_IF_ERROR(
        within(Binary::kGreaterOrEqual, -static_cast<double>(window.left)));
  }
  return seen;
}

// Sets what is added to the scores, and which keys each query sees.
absl::Status ReadBias(NodeContext& ctx, Attention& a, const Window& window) {
  RETURN_IF_ERROR(ReadMask(ctx, a));
  ValueId seen;
  if (ctx.has_input(6)) {
    if (a.past > 0) {
      return ctx.Refuse("nonpad_kv_seqlen and past keys exclude each other");
    }
    ASSIGN_OR_RETURN(const ValueId counts, ctx.Input(6));
    ASSIGN_OR_RETURN(seen, SeenOfCounts(ctx, a, window, counts));
  } else if (!window.is_open()) {
    ASSIGN_OR_RETURN(seen, SeenFromPast(ctx, a, window));
  } else if (a.bias.valid() || !a.visible.valid()) {
    return absl::OkStatus();
  }
  if (!a.visible.valid()) {
    a.visible = seen;
  } else if (seen.valid()) {
    ASSIGN_OR_RETURN(a.visible, ctx.Binary(Binary::kAnd, a.visible, seen));
  }
  const DType dtype = ctx.dtype(a.q);
  const ValueId otherwise = ctx.Scalar(dtype, HiddenScore(dtype));
  const ValueId added = a.bias.valid() ? a.bias : ctx.Scalar(dtype, 0);
  ASSIGN_OR_RETURN(a.bias, ctx.Emit(Op::kWhere, {a.visible, added, otherwise}));
  return absl::OkStatus();
}

absl::Status ReadOperands(NodeContext& ctx, Attention& a) {
  ASSIGN_OR_RETURN(const ValueId q, ctx.Input(0));
  ASSIGN_OR_RETURN(const ValueId k, ctx.Input(1));
  ASSIGN_OR_RETURN(const ValueId v, ctx.Input(2));
  RETURN_IF_ERROR(RequireFloating(ctx, q));
  a.flat = ctx.rank(q) == 3;
  ASSIGN_OR_RETURN(a.q, HeadsOf(ctx, q, "q_num_heads"));
  ASSIGN_OR_RETURN(a.k, HeadsOf(ctx, k, "kv_num_heads"));
  ASSIGN_OR_RETURN(a.v, HeadsOf(ctx, v, "kv_num_heads"));
  const int64_t new_keys = ctx.shape(a.k)[2];
  ASSIGN_OR_RETURN(a.k, AfterPast(ctx, a.k, 4, 1));
  ASSIGN_OR_RETURN(a.v, AfterPast(ctx, a.v, 5, 2));
  // Keys of earlier calls come before the first query.
  a.past = ctx.shape(a.k)[2] - new_keys;
  const int64_t heads = ctx.shape(a.q)[1];
  ASSIGN_OR_RETURN(a.k, RepeatHeads(ctx, a.k, heads));
  ASSIGN_OR_RETURN(a.v, RepeatHeads(ctx, a.v, heads));
  return absl::OkStatus();
}

absl::StatusOr<Attention> ReadAttention(NodeContext& ctx) {
  Attention a;
  RETURN_IF_ERROR(ReadOperands(ctx, a));
  const double width = static_cast<double>(ctx.shape(a.q)[3]);
  ASSIGN_OR_RETURN(a.scale, ctx.Float("scale", 1 / std::sqrt(width)));
  ASSIGN_OR_RETURN(a.softcap, ctx.Float("softcap", 0));
  ASSIGN_OR_RETURN(const int64_t causal, ctx.Int("is_causal", 0));
  ASSIGN_OR_RETURN(Window window, ReadWindow(ctx, causal != 0));
  // The op's causal form aligns the last query with the last key.
  const bool aligned = ctx.shape(a.k)[2] - ctx.shape(a.q)[2] == a.past;
  a.causal = causal != 0 && window.left < 0 && aligned && a.softcap == 0 &&
             !ctx.has_input(3) && !ctx.has_input(6) && !ctx.wants_output(3);
  if (a.causal) window = {};
  RETURN_IF_ERROR(ReadBias(ctx, a, window));
  return a;
}

// Replaces the rows of x [batch, heads, queries, n] whose query sees no key
// by 0.
absl::StatusOr<ValueId> WithoutBlindRows(NodeContext& ctx, const Attention& a,
                                         ValueId x) {
  if (!a.visible.valid()) return x;
  const DType dtype = ctx.dtype(x);
  ASSIGN_OR_RETURN(const ValueId numbers, ctx.Cast(a.visible, dtype));
  ASSIGN_OR_RETURN(
      const ValueId best,
      ctx.Reduce(ReduceFunction::kMax, numbers, {ctx.rank(numbers) - 1}, true));
  ASSIGN_OR_RETURN(const ValueId sees, ctx.Binary(Binary::kGreater, best, 0.0));
  if (ctx.value(sees).kind == ValueKind::kConstant) {
    ASSIGN_OR_RETURN(const HostTensor rows, ctx.KnownValue(sees, "the mask"));
    if (!absl::c_linear_search(rows.numbers, 0)) return x;
  }
  return ctx.Emit(Op::kWhere, {sees, x, ctx.Scalar(dtype, 0)});
}

absl::StatusOr<ValueId> WholeAttention(NodeContext& ctx, const Attention& a) {
  ASSIGN_OR_RETURN(const ValueId y, EmitAttention(ctx, a));
  return WithoutBlindRows(ctx, a, y);
}

// Computes attention step by step, for soft caps and when the scores are an
// output. `mode` selects them: 0 scores, 1 capped, 2 with the bias, 3 after
// softmax. The cap comes before the bias: it would lift hidden keys.
absl::StatusOr<ValueId> StepwiseAttention(NodeContext& ctx,
                                          const Attention& a) {
  ASSIGN_OR_RETURN(const int64_t mode, ctx.Int("qk_matmul_output_mode", 0));
  if (mode < 0 || mode > 3) {
    return ctx.Refuse("qk_matmul_output_mode ", mode, " must be from 0 to 3");
  }
  std::vector<ValueId> shown(4);
  ASSIGN_OR_RETURN(ValueId scores, AttentionScores(ctx, a));
  shown[0] = scores;
  ASSIGN_OR_RETURN(scores, CappedScores(ctx, scores, a.softcap));
  shown[1] = scores;
  if (a.bias.valid()) {
    ASSIGN_OR_RETURN(scores, Plus(ctx, scores, a.bias));
  }
  shown[2] = scores;
  if (mode == 2 && a.visible.valid()) {
    const ValueId hidden = ctx.Scalar(ctx.dtype(scores), -kInfinity);
    ASSIGN_OR_RETURN(shown[2],
                     ctx.Emit(Op::kWhere, {a.visible, scores, hidden}));
  }
  ASSIGN_OR_RETURN(ValueId weights, ctx.Emit(Op::kSoftmax, {scores}));
  ASSIGN_OR_RETURN(weights, WithoutBlindRows(ctx, a, weights));
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
  return Finish(ctx, JoinHeads(ctx, y));
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

absl::Status LowerRotary(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const ValueId given, ctx.Input(0));
  RETURN_IF_ERROR(RequireFloating(ctx, given));
  const bool flat = ctx.rank(given) == 3;
  ASSIGN_OR_RETURN(const ValueId heads, HeadsOf(ctx, given, "num_heads"));
  ASSIGN_OR_RETURN(const ValueId x, ctx.Transpose(heads, {0, 2, 1, 3}));
  ASSIGN_OR_RETURN(Rotation rotation, ReadRotation(ctx, ctx.shape(x)[3]));
  ASSIGN_OR_RETURN(rotation.cos, Angles(ctx, 1, rotation.width / 2));
  ASSIGN_OR_RETURN(rotation.sin, Angles(ctx, 2, rotation.width / 2));
  ASSIGN_OR_RETURN(const ValueId y, RotateHeads(ctx, x, rotation));
  if (flat) return Finish(ctx, ctx.Reshape(y, ctx.shape(given).dims()));
  return Finish(ctx, ctx.Transpose(y, {0, 2, 1, 3}));
}

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
