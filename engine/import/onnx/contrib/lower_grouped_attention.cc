// ONNX Runtime's attention of decoders, whose query heads share keys and
// values, and its rotary position embedding.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/status_macros.h"
#include "engine/import/onnx/contrib/contrib_parts.h"
#include "engine/import/onnx/contrib/head_attention.h"
#include "engine/import/onnx/graph/lowering_parts.h"
#include "engine/import/onnx/graph/lowerings.h"
#include "engine/import/onnx/operators/heads.h"

namespace gpupool::engine::onnx_import {
namespace {

using Binary = BinaryFunction;

// Returns rows of the table of cosines or sines, input `table`, at positions
// [batch or 1, tokens], as [batch or 1, tokens, 1, pairs].
absl::StatusOr<ValueId> AnglesAt(NodeContext& ctx, int table, ValueId positions,
                                 int64_t pairs) {
  ASSIGN_OR_RETURN(const ValueId rows, ctx.Input(table));
  RETURN_IF_ERROR(RequireRank(ctx, rows, 2, 2));
  if (ctx.shape(rows)[1] != pairs) {
    return ctx.Refuse("the tables of cosines and sines have ",
                      ctx.shape(rows)[1], " columns instead of ", pairs);
  }
  ASSIGN_OR_RETURN(const ValueId angles,
                   ctx.Emit(Op::kGather, {rows, positions}, AxisAttributes{0}));
  const Shape shape = ctx.shape(angles);
  return ctx.Reshape(angles, {shape[0], shape[1], 1, pairs});
}

// Returns int64 positions [batch or 1, tokens] for input i: [batch, tokens], or
// one number, the position of the first token.
absl::StatusOr<ValueId> ReadPositions(NodeContext& ctx, int i, int64_t tokens) {
  ASSIGN_OR_RETURN(const ValueId given, ctx.Input(i));
  ASSIGN_OR_RETURN(const ValueId numbers, ctx.Cast(given, DType::kInt64));
  const Shape shape = ctx.shape(numbers);
  if (shape.rank() == 2 && shape[1] == tokens) return numbers;
  if (shape.rank() > 1 || shape.elements() != 1) {
    return ctx.Refuse("the positions are ", shape.ToString(),
                      " and must be [1], or [batch, ", tokens, "]");
  }
  ASSIGN_OR_RETURN(const ValueId first, ctx.Reshape(numbers, {1, 1}));
  ASSIGN_OR_RETURN(ValueId steps, Positions(ctx, tokens));
  ASSIGN_OR_RETURN(steps, ctx.Reshape(steps, {1, tokens}));
  return ctx.Binary(Binary::kAdd, steps, first);
}

// Returns the input as [batch, tokens, heads, width]. The width of a head
// follows from the number of heads, or else from the tables.
absl::StatusOr<ValueId> TokensOfHeads(NodeContext& ctx, ValueId x,
                                      int64_t table_columns) {
  if (ctx.rank(x) == 4) return ctx.Transpose(x, {0, 2, 1, 3});
  RETURN_IF_ERROR(RequireRank(ctx, x, 3, 4));
  const Shape shape = ctx.shape(x);
  ASSIGN_OR_RETURN(int64_t heads, ctx.Int("num_heads", 0));
  if (heads == 0 && table_columns > 0 && table_columns <= shape[2] / 2) {
    heads = shape[2] / (2 * table_columns);
  }
  if (heads < 1 || shape[2] % heads != 0) {
    return ctx.Refuse("num_heads ", heads, " must divide ", shape[2]);
  }
  return ctx.Reshape(x, {shape[0], shape[1], heads, shape[2] / heads});
}

absl::Status LowerRotary(NodeContext& ctx) {
  RETURN_IF_ERROR(RequireInt(ctx, "is_packed_batching", 0));
  ASSIGN_OR_RETURN(const double scale, ctx.Float("scale", 1));
  if (scale != 1) return ctx.Unsupported("scale = ", scale, " is not");
  ASSIGN_OR_RETURN(const ValueId given, ctx.Input(0));
  RETURN_IF_ERROR(RequireFloating(ctx, given));
  ASSIGN_OR_RETURN(const ValueId table, ctx.Input(2));
  RETURN_IF_ERROR(RequireRank(ctx, table, 2, 2));
  const int64_t pairs = ctx.shape(table)[1];
  ASSIGN_OR_RETURN(const ValueId x, TokensOfHeads(ctx, given, pairs));
  ASSIGN_OR_RETURN(Rotation rotation, ReadRotation(ctx, ctx.shape(x)[3]));
  ASSIGN_OR_RETURN(const ValueId positions,
                   ReadPositions(ctx, 1, ctx.shape(x)[1]));
  ASSIGN_OR_RETURN(rotation.cos,
                   AnglesAt(ctx, 2, positions, rotation.width / 2));
  ASSIGN_OR_RETURN(rotation.sin,
                   AnglesAt(ctx, 3, positions, rotation.width / 2));
  ASSIGN_OR_RETURN(const ValueId y, RotateHeads(ctx, x, rotation));
  if (ctx.rank(given) == 4) {
    return Finish(ctx, ctx.Transpose(y, {0, 2, 1, 3}));
  }
  return Finish(ctx, ctx.Reshape(y, ctx.shape(given).dims()));
}

struct Grouped {
  ValueId q, k, v;  // [batch, tokens, heads, width]
  int64_t batch = 1, tokens = 1, heads = 1, kv_heads = 1, width = 1;
  int64_t past = 0;   // rows of the buffer of earlier keys
  int64_t total = 0;  // keys of this call
  // Without keys of earlier calls, tokens are at 0, 1, ... Otherwise the first
  // token of a sequence is at the int64 [batch, 1] `first`.
  bool prompt = false;
  ValueId first;
  bool causal = true;
  int64_t window = -1;  // latest keys that a query sees; -1: all
};

absl::Status CheckGrouped(NodeContext& ctx) {
  RETURN_IF_ERROR(RequireInt(ctx, "qk_output", 0));
  RETURN_IF_ERROR(RequireInt(ctx, "sliding_window_cache", 0));
  for (const absl::string_view name : {"k_quant_type", "v_quant_type"}) {
    ASSIGN_OR_RETURN(const std::string type, ctx.String(name, "NONE"));
    if (type != "NONE") {
      return ctx.Unsupported(name, " = '", type, "' is not");
    }
  }
  for (const int i : {12, 13, 14, 15}) {
    if (!ctx.has_input(i)) continue;
    return ctx.Unsupported("input ", i, " (",
                           i < 14 ? "a scale of cached keys or values"
                                  : "a norm of queries or keys",
                           ") is not");
  }
  return absl::OkStatus();
}

// Returns `heads` heads of x [batch, tokens, columns] from head `start` on, as
// [batch, tokens, heads, width].
absl::StatusOr<ValueId> HeadsAt(NodeContext& ctx, const Grouped& g, ValueId x,
                                const AxisRange& heads) {
  ASSIGN_OR_RETURN(const ValueId part,
                   SliceAxis(ctx, x,
                             {.axis = 2,
                              .start = heads.start * g.width,
                              .size = heads.size * g.width}));
  return ctx.Reshape(part, {g.batch, g.tokens, heads.size, g.width});
}

// Reads queries, keys and values, which the first input may hold together.
absl::Status ReadGroupedOperands(NodeContext& ctx, Grouped& g) {
  ASSIGN_OR_RETURN(const ValueId q, ctx.Input(0));
  RETURN_IF_ERROR(RequireFloating(ctx, q));
  RETURN_IF_ERROR(RequireRank(ctx, q, 3, 3));
  ASSIGN_OR_RETURN(g.heads, ReadHeads(ctx));
  ASSIGN_OR_RETURN(g.kv_heads, ReadHeads(ctx, "kv_num_heads"));
  g.batch = ctx.shape(q)[0];
  g.tokens = ctx.shape(q)[1];
  const int64_t columns = ctx.shape(q)[2];
  const bool packed = !ctx.has_input(1);
  if (g.heads > columns || g.kv_heads > columns || g.heads % g.kv_heads != 0) {
    return ctx.Refuse("num_heads ", g.heads, " and kv_num_heads ", g.kv_heads,
                      " do not fit ", columns,
                      " columns; the second must divide the first");
  }
  const int64_t parts = packed ? g.heads + 2 * g.kv_heads : g.heads;
  if (columns % parts != 0) {
    return ctx.Refuse("the query has ", columns, " columns, which ", parts,
                      " heads must divide");
  }
  g.width = columns / parts;
  if (packed) {
    ASSIGN_OR_RETURN(g.q, HeadsAt(ctx, g, q, {.start = 0, .size = g.heads}));
    ASSIGN_OR_RETURN(
        g.k, HeadsAt(ctx, g, q, {.start = g.heads, .size = g.kv_heads}));
    ASSIGN_OR_RETURN(
        g.v, HeadsAt(ctx, g, q,
                     {.start = g.heads + g.kv_heads, .size = g.kv_heads}));
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const ValueId k, ctx.Input(1));
  ASSIGN_OR_RETURN(const ValueId v, ctx.Input(2));
  ASSIGN_OR_RETURN(const Shape wanted,
                   MakeShape(ctx, {g.batch, g.tokens, g.kv_heads * g.width}));
  if (ctx.shape(k) != wanted || ctx.shape(v) != wanted) {
    return ctx.Refuse("key ", ctx.shape(k).ToString(), " and value ",
                      ctx.shape(v).ToString(), " must be ", wanted.ToString());
  }
  ASSIGN_OR_RETURN(g.q, HeadsAt(ctx, g, q, {.start = 0, .size = g.heads}));
  ASSIGN_OR_RETURN(g.k, HeadsAt(ctx, g, k, {.start = 0, .size = g.kv_heads}));
  ASSIGN_OR_RETURN(g.v, HeadsAt(ctx, g, v, {.start = 0, .size = g.kv_heads}));
  return absl::OkStatus();
}

// Reads where the tokens are among the keys. The number of keys is input 6 when
// it is known at import. Otherwise the new keys follow all rows of the past.
absl::Status ReadLengths(NodeContext& ctx, Grouped& g) {
  if (ctx.has_input(3) != ctx.has_input(4)) {
    return ctx.Refuse("past_key and past_value need each other");
  }
  if (ctx.has_input(3)) {
    ASSIGN_OR_RETURN(const ValueId past, ctx.Input(3));
    RETURN_IF_ERROR(RequireRank(ctx, past, 4, 4));
    g.past = ctx.shape(past)[2];
  }
  g.total = g.past + g.tokens;
  if (ctx.IsKnown(6)) {
    ASSIGN_OR_RETURN(g.total, KnownInt(ctx, 6, "total_sequence_length"));
    if (g.total < g.tokens || g.total > g.past + g.tokens) {
      return ctx.Refuse("total_sequence_length ", g.total, " must be from ",
                        g.tokens, " to ", g.past + g.tokens,
                        ", the tokens with those of the past");
    }
  }
  g.prompt = g.total == g.tokens;
  if (g.prompt) return absl::OkStatus();
  // seqlens_k is the position of the last token.
  ASSIGN_OR_RETURN(const ValueId given, ctx.Input(5));
  if (ctx.shape(given).elements() != g.batch) {
    return ctx.Refuse("seqlens_k is ", ctx.shape(given).ToString(),
                      " and must have ", g.batch, " numbers");
  }
  ASSIGN_OR_RETURN(const ValueId list, ctx.Cast(given, DType::kInt64));
  ASSIGN_OR_RETURN(const ValueId last, ctx.Reshape(list, {g.batch, 1}));
  ASSIGN_OR_RETURN(g.first, ctx.Binary(Binary::kAdd, last,
                                       static_cast<double>(1 - g.tokens)));
  return absl::OkStatus();
}

// Returns int64 positions [batch or 1, tokens].
absl::StatusOr<ValueId> TokenPositions(NodeContext& ctx, const Grouped& g) {
  ASSIGN_OR_RETURN(ValueId steps, Positions(ctx, g.tokens));
  ASSIGN_OR_RETURN(steps, ctx.Reshape(steps, {1, g.tokens}));
  if (g.prompt) return steps;
  return ctx.Binary(Binary::kAdd, steps, g.first);
}

absl::Status RotateGrouped(NodeContext& ctx, Grouped& g) {
  ASSIGN_OR_RETURN(const int64_t rotates, ctx.Int("do_rotary", 0));
  if (rotates == 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(const ValueId table, ctx.Input(7));
  RETURN_IF_ERROR(RequireRank(ctx, table, 2, 2));
  const int64_t pairs = ctx.shape(table)[1];
  Rotation rotation;
  rotation.width = pairs <= g.width ? 2 * pairs : 0;
  RETURN_IF_ERROR(CheckRotation(ctx, rotation.width, g.width));
  ASSIGN_OR_RETURN(const int64_t interleaved, ctx.Int("rotary_interleaved", 0));
  rotation.interleaved = interleaved != 0;
  ASSIGN_OR_RETURN(const ValueId positions,
                   ctx.has_input(9) ? ReadPositions(ctx, 9, g.tokens)
                                    : TokenPositions(ctx, g));
  ASSIGN_OR_RETURN(rotation.cos, AnglesAt(ctx, 7, positions, pairs));
  ASSIGN_OR_RETURN(rotation.sin, AnglesAt(ctx, 8, positions, pairs));
  ASSIGN_OR_RETURN(g.q, RotateHeads(ctx, g.q, rotation));
  ASSIGN_OR_RETURN(g.k, RotateHeads(ctx, g.k, rotation));
  return absl::OkStatus();
}

// Returns the bool [batch, 1, rows, tokens] whether a token's place is the row.
absl::StatusOr<ValueId> PlaceOf(NodeContext& ctx, const Grouped& g,
                                int64_t rows) {
  ASSIGN_OR_RETURN(const ValueId list, TokenPositions(ctx, g));
  ASSIGN_OR_RETURN(const ValueId places,
                   ctx.Reshape(list, {g.batch, 1, 1, g.tokens}));
  ASSIGN_OR_RETURN(ValueId row, Positions(ctx, rows));
  ASSIGN_OR_RETURN(row, ctx.Reshape(row, {1, 1, rows, 1}));
  return ctx.Binary(Binary::kEqual, row, places);
}

// Returns the keys or values of this call [batch, heads, rows, width]: rows of
// the past before the first token, then x [batch, heads, tokens, width], then
// zeros.
absl::StatusOr<ValueId> AfterPast(NodeContext& ctx, const Grouped& g, ValueId x,
                                  int past) {
  const int64_t rows = std::max(g.past, g.total);
  if (g.prompt) return PadEnds(ctx, x, {0, 0, rows - g.tokens, 0});
  ASSIGN_OR_RETURN(ValueId old, ctx.Input(past));
  ASSIGN_OR_RETURN(const Shape wanted,
                   MakeShape(ctx, {g.batch, g.kv_heads, g.past, g.width}));
  if (ctx.shape(old) != wanted) {
    return ctx.Refuse("the past is ", ctx.shape(old).ToString(),
                      " and must be ", wanted.ToString());
  }
  ASSIGN_OR_RETURN(old, PadEnds(ctx, old, {0, 0, rows - g.past, 0}));
  // A product with a matrix of zeros and ones moves tokens to their rows.
  ASSIGN_OR_RETURN(const ValueId at, PlaceOf(ctx, g, rows));
  ASSIGN_OR_RETURN(const ValueId ones, ctx.Cast(at, ctx.dtype(x)));
  ASSIGN_OR_RETURN(const ValueId placed, ctx.Emit(Op::kBatchMatMul, {ones, x},
                                                  BatchMatMulAttributes{}));
  ASSIGN_OR_RETURN(ValueId row, Positions(ctx, rows));
  ASSIGN_OR_RETURN(row, ctx.Reshape(row, {1, 1, rows, 1}));
  ASSIGN_OR_RETURN(const ValueId first,
                   ctx.Reshape(g.first, {g.batch, 1, 1, 1}));
  ASSIGN_OR_RETURN(const ValueId earlier,
                   ctx.Binary(Binary::kLess, row, first));
  return ctx.Emit(Op::kWhere, {earlier, old, placed});
}

// Returns the bool [batch or 1, 1, tokens, keys] whether a query sees a key.
absl::StatusOr<ValueId> Seen(NodeContext& ctx, const Grouped& g, int64_t keys) {
  ASSIGN_OR_RETURN(const ValueId list, TokenPositions(ctx, g));
  ASSIGN_OR_RETURN(const ValueId own,
                   ctx.Reshape(list, {ctx.shape(list)[0], 1, g.tokens, 1}));
  ASSIGN_OR_RETURN(ValueId key, Positions(ctx, keys));
  ASSIGN_OR_RETURN(key, ctx.Reshape(key, {1, 1, 1, keys}));
  ValueId last = own;
  if (!g.causal) {
    ASSIGN_OR_RETURN(last,
                     SliceAxis(ctx, own, {.axis = 2, .start = g.tokens - 1}));
  }
  ASSIGN_OR_RETURN(const ValueId before,
                   ctx.Binary(Binary::kLessOrEqual, key, last));
  if (g.window < 0) return before;
  ASSIGN_OR_RETURN(
      const ValueId oldest,
      ctx.Binary(Binary::kAdd, own, 1 - static_cast<double>(g.window)));
  ASSIGN_OR_RETURN(const ValueId near,
                   ctx.Binary(Binary::kGreaterOrEqual, key, oldest));
  return ctx.Binary(Binary::kAnd, before, near);
}

absl::Status ReadSink(NodeContext& ctx, const Grouped& g, HeadAttention& a) {
  ASSIGN_OR_RETURN(const int64_t smooth, ctx.Int("smooth_softmax", 0));
  const DType dtype = ctx.dtype(a.q);
  if (ctx.has_input(11)) {
    ASSIGN_OR_RETURN(const ValueId sink, ctx.Input(11));
    ASSIGN_OR_RETURN(const ValueId typed, ctx.Cast(sink, dtype));
    ASSIGN_OR_RETURN(a.sink, ctx.Reshape(typed, {1, g.heads, 1, 1}));
  } else if (smooth == 1) {
    ASSIGN_OR_RETURN(const Shape shape, MakeShape(ctx, {1, g.heads, 1, 1}));
    ASSIGN_OR_RETURN(a.sink, Filled(ctx, dtype, shape, 0));
  }
  return absl::OkStatus();
}

// Hides keys from queries that do not see them.
absl::Status HideKeys(NodeContext& ctx, const Grouped& g, HeadAttention& a) {
  const bool simple = g.prompt && g.causal && g.window < 0;
  if (simple) return HideLaterKeys(ctx, a);
  ASSIGN_OR_RETURN(const ValueId seen, Seen(ctx, g, ctx.shape(a.k)[2]));
  return HideUnseenKeys(ctx, seen, a);
}

absl::Status ReadGroupedOptions(NodeContext& ctx, Grouped& g,
                                HeadAttention& a) {
  ASSIGN_OR_RETURN(a.scale, ReadScale(ctx, g.width));
  ASSIGN_OR_RETURN(a.softcap, ctx.Float("softcap", 0));
  ASSIGN_OR_RETURN(const int64_t causal, ctx.Int("causal", 1));
  ASSIGN_OR_RETURN(g.window, ctx.Int("local_window_size", -1));
  g.causal = causal != 0;
  if (g.window == 0 || g.window < -1 || (!g.causal && g.window > 0)) {
    return ctx.Refuse("local_window_size ", g.window,
                      " must be -1, or above 0 and with causal = 1");
  }
  return absl::OkStatus();
}

absl::Status LowerGroupQueryAttention(NodeContext& ctx) {
  RETURN_IF_ERROR(CheckGrouped(ctx));
  Grouped g;
  RETURN_IF_ERROR(ReadGroupedOperands(ctx, g));
  RETURN_IF_ERROR(ReadLengths(ctx, g));
  HeadAttention a;
  RETURN_IF_ERROR(ReadGroupedOptions(ctx, g, a));
  RETURN_IF_ERROR(RotateGrouped(ctx, g));
  ASSIGN_OR_RETURN(a.q, ctx.Transpose(g.q, {0, 2, 1, 3}));
  ASSIGN_OR_RETURN(const ValueId k, ctx.Transpose(g.k, {0, 2, 1, 3}));
  ASSIGN_OR_RETURN(const ValueId v, ctx.Transpose(g.v, {0, 2, 1, 3}));
  ASSIGN_OR_RETURN(const ValueId all_k, AfterPast(ctx, g, k, 3));
  ASSIGN_OR_RETURN(const ValueId all_v, AfterPast(ctx, g, v, 4));
  ctx.Set(1, all_k);
  ctx.Set(2, all_v);
  // Rows of the buffer beyond the keys of this call are hidden anyway.
  const AxisRange used{.axis = 2, .size = g.total};
  ASSIGN_OR_RETURN(const ValueId used_k, SliceAxis(ctx, all_k, used));
  ASSIGN_OR_RETURN(const ValueId used_v, SliceAxis(ctx, all_v, used));
  ASSIGN_OR_RETURN(a.k, RepeatHeads(ctx, used_k, g.heads));
  ASSIGN_OR_RETURN(a.v, RepeatHeads(ctx, used_v, g.heads));
  RETURN_IF_ERROR(AddBias(ctx, 10, a));
  RETURN_IF_ERROR(ReadSink(ctx, g, a));
  RETURN_IF_ERROR(HideKeys(ctx, g, a));
  return Finish(ctx, AttendHeads(ctx, a));
}

}  // namespace

absl::Span<const OperatorEntry> GroupedAttentionOperators() {
  static constexpr absl::string_view kFamily = "attention";
  static const OperatorEntry rows[] = {
      {kMicrosoft, "GroupQueryAttention", kFamily, kShapes,
       LowerGroupQueryAttention},
      {kMicrosoft, "RotaryEmbedding", kFamily, kShapes, LowerRotary},
  };
  return rows;
}

}  // namespace gpupool::engine::onnx_import
