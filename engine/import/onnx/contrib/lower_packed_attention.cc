// ONNX Runtime's attention of encoders and of GPT-2: projections to queries,
// keys and values in one product, or before the operator.
#include <utility>
#include <vector>

#include "engine/base/status_macros.h"
#include "engine/import/onnx/contrib/contrib_parts.h"
#include "engine/import/onnx/contrib/head_attention.h"
#include "engine/import/onnx/contrib/quantized_product.h"
#include "engine/import/onnx/graph/lowering_parts.h"
#include "engine/import/onnx/graph/lowerings.h"
#include "engine/import/onnx/operators/heads.h"
#include "engine/import/onnx/operators/products.h"

namespace gpupool::engine::onnx_import {
namespace {

using Binary = BinaryFunction;

// The inputs of Attention and QAttention after the projection. -1: there is no
// such input.
struct PackedInputs {
  int mask, past, bias;
};

// Cuts the last axis of x into parts of these sizes.
absl::StatusOr<std::vector<ValueId>> CutColumns(
    NodeContext& ctx, ValueId x, const std::vector<int64_t>& sizes) {
  const int last = ctx.rank(x) - 1;
  std::vector<ValueId> parts;
  int64_t start = 0;
  for (const int64_t size : sizes) {
    ASSIGN_OR_RETURN(
        parts.emplace_back(),
        SliceAxis(ctx, x, {.axis = last, .start = start, .size = size}));
    start += size;
  }
  return parts;
}

// Returns the widths of the queries, keys and values of a projection of
// `columns` columns.
absl::StatusOr<std::vector<int64_t>> ReadWidths(const NodeContext& ctx,
                                                int64_t columns,
                                                int64_t heads) {
  ASSIGN_OR_RETURN(std::vector<int64_t> widths,
                   ctx.Ints("qkv_hidden_sizes", {}));
  if (widths.empty()) {
    if (columns % 3 != 0) {
      return ctx.Refuse("the weights have ", columns,
                        " columns, which 3 must divide");
    }
    widths.assign(3, columns / 3);
  }
  if (widths.size() != 3) {
    return ctx.Refuse("qkv_hidden_sizes has ", widths.size(),
                      " numbers and needs 3");
  }
  int64_t sum = 0;
  for (const int64_t width : widths) {
    if (width < 1 || width > columns || width % heads != 0) {
      return ctx.Refuse("the width ", width, " must be from 1 to ", columns,
                        " and a multiple of num_heads, ", heads);
    }
    sum += width;
  }
  if (sum != columns || widths[0] != widths[1]) {
    return ctx.Refuse(
        "queries, keys and values are ", widths[0], ", ", widths[1], " and ",
        widths[2], " wide; the first two must be equal and the sum ", columns);
  }
  return widths;
}

// Puts the keys and values of earlier calls in front. The state is [2, batch,
// heads, keys, width].
absl::Status AppendPast(NodeContext& ctx, int past, HeadAttention& a) {
  if (ctx.has_input(past)) {
    ASSIGN_OR_RETURN(const ValueId state, ctx.Input(past));
    RETURN_IF_ERROR(RequireRank(ctx, state, 5, 5));
    if (ctx.shape(state)[0] != 2) {
      return ctx.Refuse("past ", ctx.shape(state).ToString(),
                        " must begin with 2: keys and values");
    }
    ASSIGN_OR_RETURN(const ValueId keys, TakeRow(ctx, state, 0, 0));
    ASSIGN_OR_RETURN(const ValueId values, TakeRow(ctx, state, 0, 1));
    ASSIGN_OR_RETURN(a.k, Concat(ctx, {keys, a.k}, 2));
    ASSIGN_OR_RETURN(a.v, Concat(ctx, {values, a.v}, 2));
  }
  if (!ctx.wants_output(1)) return absl::OkStatus();
  if (ctx.shape(a.k) != ctx.shape(a.v)) {
    return ctx.Refuse(
        "the output 'present' needs keys and values of one width");
  }
  ValueIds parts;
  for (const ValueId x : {a.k, a.v}) {
    std::vector<int64_t> dims = Dims(ctx.shape(x));
    dims.insert(dims.begin(), 1);
    ASSIGN_OR_RETURN(parts.emplace_back(), ctx.Reshape(x, dims));
  }
  ASSIGN_OR_RETURN(const ValueId present, Concat(ctx, parts, 0));
  ctx.Set(1, present);
  return absl::OkStatus();
}

// Lowers what follows the projection `x` [batch, tokens, columns].
absl::Status AttendPacked(NodeContext& ctx, ValueId x,
                          const PackedInputs& inputs) {
  RETURN_IF_ERROR(RequireInt(ctx, "do_rotary", 0));
  RETURN_IF_ERROR(RequireInt(ctx, "past_present_share_buffer", 0));
  ASSIGN_OR_RETURN(const int64_t heads, ReadHeads(ctx));
  const Shape shape = ctx.shape(x);
  ASSIGN_OR_RETURN(const std::vector<int64_t> widths,
                   ReadWidths(ctx, shape[2], heads));
  ASSIGN_OR_RETURN(const std::vector<ValueId> parts,
                   CutColumns(ctx, x, widths));
  HeadAttention a;
  ASSIGN_OR_RETURN(a.q, SplitHeads(ctx, parts[0], heads));
  ASSIGN_OR_RETURN(a.k, SplitHeads(ctx, parts[1], heads));
  ASSIGN_OR_RETURN(a.v, SplitHeads(ctx, parts[2], heads));
  RETURN_IF_ERROR(AppendPast(ctx, inputs.past, a));
  ASSIGN_OR_RETURN(a.scale, ReadScale(ctx, widths[0] / heads));
  const PaddingMask mask{.input = inputs.mask,
                         .batch = shape[0],
                         .queries = shape[1],
                         .keys = ctx.shape(a.k)[2]};
  ASSIGN_OR_RETURN(a.bias, ReadPaddingMask(ctx, mask, ctx.dtype(a.q)));
  RETURN_IF_ERROR(AddBias(ctx, inputs.bias, a));
  ASSIGN_OR_RETURN(const int64_t causal, ctx.Int("unidirectional", 0));
  if (causal != 0) RETURN_IF_ERROR(HideLaterKeys(ctx, a));
  return Finish(ctx, AttendHeads(ctx, a));
}

absl::Status LowerAttention(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const ValueId x, ctx.Input(0));
  RETURN_IF_ERROR(RequireFloating(ctx, x));
  RETURN_IF_ERROR(RequireRank(ctx, x, 3, 3));
  ASSIGN_OR_RETURN(const ValueId weights, ctx.Input(1));
  RETURN_IF_ERROR(RequireRank(ctx, weights, 2, 2));
  ASSIGN_OR_RETURN(const ValueId product, MatrixProduct(ctx, x, weights));
  ASSIGN_OR_RETURN(const ValueId projection,
                   PlusInput(ctx, product, 2, "bias"));
  return AttendPacked(ctx, projection, {.mask = 3, .past = 4, .bias = 5});
}

absl::Status LowerQAttention(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const ValueId given, ctx.Input(0));
  RETURN_IF_ERROR(RequireRank(ctx, given, 3, 3));
  ASSIGN_OR_RETURN(const ValueId codes, ctx.Input(1));
  RETURN_IF_ERROR(RequireRank(ctx, codes, 2, 2));
  ASSIGN_OR_RETURN(const ValueId x, CentredReal(ctx, given, 6, 0));
  ASSIGN_OR_RETURN(const ValueId weights, CentredReal(ctx, codes, 7, 1));
  ASSIGN_OR_RETURN(const ValueId sums, MatrixProduct(ctx, x, weights));
  ASSIGN_OR_RETURN(const ValueId scale,
                   OneNumber(ctx, 3, "scale of the input"));
  ASSIGN_OR_RETURN(const ValueId half,
                   ctx.Binary(Binary::kMultiply, sums, scale));
  ASSIGN_OR_RETURN(const ValueId product, TimesScale(ctx, half, 4));
  ASSIGN_OR_RETURN(const ValueId projection,
                   PlusInput(ctx, product, 2, "bias"));
  return AttendPacked(ctx, projection, {.mask = 5, .past = 8, .bias = -1});
}

// Queries, keys and values of MultiHeadAttention before the bias. Keys and
// values may be split into heads already, which the bias does not change.
struct Projections {
  ValueId q, k, v;
};

// Takes queries, keys and values, or keys and values, from x [batch, tokens,
// heads, 3 or 2, width], as [batch, tokens, heads * width].
absl::StatusOr<ValueId> Unpacked(NodeContext& ctx, ValueId x, int64_t which) {
  ASSIGN_OR_RETURN(const ValueId part, TakeRow(ctx, x, 3, which));
  const Shape shape = ctx.shape(part);
  return ctx.Reshape(part, {shape[0], shape[1], shape[2] * shape[3]});
}

absl::StatusOr<Projections> ReadProjections(NodeContext& ctx) {
  Projections p;
  ASSIGN_OR_RETURN(const ValueId query, ctx.Input(0));
  RETURN_IF_ERROR(RequireFloating(ctx, query));
  RETURN_IF_ERROR(RequireRank(ctx, query, 3, 5));
  const auto packed = [&ctx](ValueId x, int64_t count) {
    return ctx.rank(x) == 5 && ctx.shape(x)[3] == count;
  };
  if (!ctx.has_input(1)) {
    if (!packed(query, 3)) {
      return ctx.Refuse("the query ", ctx.shape(query).ToString(),
                        " needs a key, or must be [batch, tokens, heads, 3, "
                        "width]");
    }
    ASSIGN_OR_RETURN(p.q, Unpacked(ctx, query, 0));
    ASSIGN_OR_RETURN(p.k, Unpacked(ctx, query, 1));
    ASSIGN_OR_RETURN(p.v, Unpacked(ctx, query, 2));
    return p;
  }
  RETURN_IF_ERROR(RequireRank(ctx, query, 3, 3));
  p.q = query;
  ASSIGN_OR_RETURN(p.k, ctx.Input(1));
  if (ctx.has_input(2)) {
    ASSIGN_OR_RETURN(p.v, ctx.Input(2));
    if (ctx.rank(p.k) != ctx.rank(p.v) || ctx.rank(p.k) < 3 ||
        ctx.rank(p.k) > 4) {
      return ctx.Refuse("key ", ctx.shape(p.k).ToString(), " and value ",
                        ctx.shape(p.v).ToString(),
                        " must both have 3 or both have 4 dimensions");
    }
    return p;
  }
  if (!packed(p.k, 2)) {
    return ctx.Refuse("the key ", ctx.shape(p.k).ToString(),
                      " needs a value, or must be [batch, tokens, heads, 2, "
                      "width]");
  }
  const ValueId both = p.k;
  ASSIGN_OR_RETURN(p.k, Unpacked(ctx, both, 0));
  ASSIGN_OR_RETURN(p.v, Unpacked(ctx, both, 1));
  return p;
}

// Adds the parts of the bias, input 3, a list with a number for each column of
// queries, keys and values.
absl::Status AddColumnBias(NodeContext& ctx, Projections& p) {
  if (!ctx.has_input(3)) return absl::OkStatus();
  if (ctx.rank(p.k) == 4) {
    return ctx.Unsupported("a bias beside keys that are split into heads is ",
                           "not");
  }
  ASSIGN_OR_RETURN(const ValueId bias, ctx.Input(3));
  const std::vector<int64_t> widths{ctx.shape(p.q)[2], ctx.shape(p.k)[2],
                                    ctx.shape(p.v)[2]};
  if (ctx.rank(bias) != 1 ||
      ctx.shape(bias)[0] != widths[0] + widths[1] + widths[2]) {
    return ctx.Refuse("the bias is ", ctx.shape(bias).ToString(),
                      " and must be [", widths[0] + widths[1] + widths[2], "]");
  }
  ASSIGN_OR_RETURN(const std::vector<ValueId> parts,
                   CutColumns(ctx, bias, widths));
  ASSIGN_OR_RETURN(p.q, Plus(ctx, p.q, parts[0]));
  ASSIGN_OR_RETURN(p.k, Plus(ctx, p.k, parts[1]));
  ASSIGN_OR_RETURN(p.v, Plus(ctx, p.v, parts[2]));
  return absl::OkStatus();
}

// Appends new keys or values to those of earlier calls, which are [batch,
// heads, keys, width], as the output is.
absl::StatusOr<ValueId> Appended(NodeContext& ctx, ValueId x, int past,
                                 int present) {
  ValueId all = x;
  if (ctx.has_input(past)) {
    ASSIGN_OR_RETURN(const ValueId old, ctx.Input(past));
    RETURN_IF_ERROR(RequireRank(ctx, old, 4, 4));
    ASSIGN_OR_RETURN(all, Concat(ctx, {old, x}, 2));
  }
  ctx.Set(present, all);
  return all;
}

absl::Status LowerMultiHeadAttention(NodeContext& ctx) {
  if (ctx.has_input(8) || ctx.has_input(9)) {
    return ctx.Unsupported("a buffer that past and present share ",
                           "(past_sequence_length, cache_indirection) is not");
  }
  ASSIGN_OR_RETURN(const int64_t heads, ReadHeads(ctx));
  ASSIGN_OR_RETURN(Projections p, ReadProjections(ctx));
  RETURN_IF_ERROR(AddColumnBias(ctx, p));
  const auto split = [&](ValueId x) -> absl::StatusOr<ValueId> {
    if (ctx.rank(x) == 4) return x;
    return SplitHeads(ctx, x, heads);
  };
  HeadAttention a;
  ASSIGN_OR_RETURN(a.q, split(p.q));
  ASSIGN_OR_RETURN(const ValueId k, split(p.k));
  ASSIGN_OR_RETURN(const ValueId v, split(p.v));
  ASSIGN_OR_RETURN(a.k, Appended(ctx, k, 6, 1));
  ASSIGN_OR_RETURN(a.v, Appended(ctx, v, 7, 2));
  ASSIGN_OR_RETURN(a.scale, ReadScale(ctx, ctx.shape(a.q)[3]));
  const PaddingMask mask{.input = 4,
                         .batch = ctx.shape(a.q)[0],
                         .queries = ctx.shape(a.q)[2],
                         .keys = ctx.shape(a.k)[2]};
  ASSIGN_OR_RETURN(a.bias, ReadPaddingMask(ctx, mask, ctx.dtype(a.q)));
  RETURN_IF_ERROR(AddBias(ctx, 5, a));
  ASSIGN_OR_RETURN(const int64_t causal, ctx.Int("unidirectional", 0));
  if (causal != 0) RETURN_IF_ERROR(HideLaterKeys(ctx, a));
  return Finish(ctx, AttendHeads(ctx, a));
}

}  // namespace

absl::Span<const OperatorEntry> PackedAttentionOperators() {
  static constexpr absl::string_view kFamily = "attention";
  static const OperatorEntry rows[] = {
      {kMicrosoft, "Attention", kFamily, kShapes, LowerAttention},
      {kMicrosoft, "MultiHeadAttention", kFamily, kShapes,
       LowerMultiHeadAttention},
      {kMicrosoft, "QAttention", kFamily, kShapes, LowerQAttention},
  };
  return rows;
}

}  // namespace gpupool::engine::onnx_import
