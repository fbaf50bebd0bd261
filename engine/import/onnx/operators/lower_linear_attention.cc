// Lowers layers that carry a state from token to token: linear attention and
// causal convolutions.
#include <cmath>
#include <string>
#include <utility>

#include "engine/base/status_macros.h"
#include "engine/import/onnx/graph/lowering_parts.h"
#include "engine/import/onnx/graph/lowerings.h"
#include "engine/import/onnx/operators/window_attributes.h"

namespace gpupool::engine::onnx_import {
namespace {

using Unary = UnaryFunction;
using Binary = BinaryFunction;

// Linear attention (Katharopoulos et al. 2020, arXiv 2006.16236) with the gates
// of Yang et al. 2024 (arXiv 2412.06464). All values have the state's element
// type. Queries, keys and values are packed: [B, T, heads * size].
struct LinearAttention {
  ValueId query, key, value;
  ValueId decay, beta;            // invalid: none
  ValueId state;                  // [B, heads, key_size, value_size]
  DType dtype = DType::kFloat32;  // of the state while it is computed
  int64_t batch = 1, tokens = 1;
  int64_t heads = 1;  // of keys and values
  int64_t group = 1;  // queries per key
  int64_t key_size = 1, value_size = 1;
  double scale = 1;
};

// Returns an input of rank 3 whose first axes are batch and tokens, cast to the
// state's type.
absl::StatusOr<ValueId> Packed(NodeContext& ctx, int i,
                               const LinearAttention& of) {
  ASSIGN_OR_RETURN(const ValueId x, ctx.Input(i));
  RETURN_IF_ERROR(RequireFloating(ctx, x));
  const Shape& shape = ctx.shape(x);
  if (shape.rank() != 3 || shape[0] != of.batch || shape[1] != of.tokens) {
    return ctx.Refuse("input ", i, " is ", shape.ToString(), " and must be [",
                      of.batch, ", ", of.tokens, ", ...]");
  }
  return ctx.Cast(x, of.dtype);
}

absl::Status ReadHeads(NodeContext& ctx, LinearAttention& of) {
  ASSIGN_OR_RETURN(of.heads, ctx.Int("kv_num_heads", 0));
  ASSIGN_OR_RETURN(const int64_t queries, ctx.Int("q_num_heads", 0));
  if (of.heads < 1 || queries < 1 || queries % of.heads != 0) {
    return ctx.Refuse("q_num_heads ", queries,
                      " must be a multiple of "
                      "kv_num_heads ",
                      of.heads);
  }
  of.group = queries / of.heads;
  const int64_t query_cells = ctx.shape(of.query)[2];
  const int64_t value_cells = ctx.shape(of.value)[2];
  of.key_size = query_cells / queries;
  of.value_size = value_cells / of.heads;
  if (of.key_size < 1 || of.value_size < 1 || query_cells % queries != 0 ||
      value_cells % of.heads != 0 ||
      ctx.shape(of.key)[2] != of.heads * of.key_size) {
    return ctx.Refuse("queries ", ctx.shape(of.query).ToString(), ", keys ",
                      ctx.shape(of.key).ToString(), " and values ",
                      ctx.shape(of.value).ToString(), " do not fit ", queries,
                      " and ", of.heads, " heads");
  }
  ASSIGN_OR_RETURN(of.scale, ctx.Float("scale", 0));
  if (of.scale == 0) of.scale = 1 / std::sqrt(static_cast<double>(of.key_size));
  return absl::OkStatus();
}

// Reads the gates that the update rule takes. Other rules must not have them.
absl::Status ReadGates(NodeContext& ctx, LinearAttention& of) {
  ASSIGN_OR_RETURN(
      const int rule,
      Choice(ctx, "update_rule", {"gated_delta", "gated", "delta", "linear"}));
  const bool gated = rule < 2, delta = rule % 2 == 0;
  if (ctx.has_input(4) != gated || ctx.has_input(5) != delta) {
    return ctx.Refuse("this update_rule takes ", gated ? "a" : "no",
                      " decay and ", delta ? "a" : "no", " beta");
  }
  if (gated) {
    ASSIGN_OR_RETURN(of.decay, Packed(ctx, 4, of));
    const int64_t cells = ctx.shape(of.decay)[2];
    if (cells != of.heads && cells != of.heads * of.key_size) {
      return ctx.Refuse("the decay has ", cells, " numbers per token for ",
                        of.heads, " heads");
    }
  }
  if (delta) {
    ASSIGN_OR_RETURN(of.beta, Packed(ctx, 5, of));
    const int64_t cells = ctx.shape(of.beta)[2];
    if (cells != of.heads && cells != 1) {
      return ctx.Refuse("beta has ", cells, " numbers per token for ", of.heads,
                        " heads");
    }
  }
  return absl::OkStatus();
}

absl::Status ReadState(NodeContext& ctx, LinearAttention& of) {
  ASSIGN_OR_RETURN(
      const Shape shape,
      MakeShape(ctx, {of.batch, of.heads, of.key_size, of.value_size}));
  if (!ctx.has_input(3)) {
    ASSIGN_OR_RETURN(of.state, Filled(ctx, of.dtype, shape, 0));
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const ValueId given, ctx.Input(3));
  RETURN_IF_ERROR(RequireFloating(ctx, given));
  if (ctx.shape(given) != shape) {
    return ctx.Refuse("past_state is ", ctx.shape(given).ToString(),
                      " and must be ", shape.ToString());
  }
  ASSIGN_OR_RETURN(of.state, ctx.Cast(given, of.dtype));
  return absl::OkStatus();
}

absl::StatusOr<LinearAttention> ReadLinearAttention(NodeContext& ctx) {
  LinearAttention of;
  ASSIGN_OR_RETURN(const ValueId query, ctx.Input(0));
  RETURN_IF_ERROR(RequireRank(ctx, query, 3, 3));
  if (ctx.shape(query).elements() == 0) {
    return ctx.Refuse("there are no tokens");
  }
  // Sums over many tokens need more than 16 bits.
  if (ctx.dtype(query) == DType::kFloat64) of.dtype = DType::kFloat64;
  of.batch = ctx.shape(query)[0];
  of.tokens = ctx.shape(query)[1];
  ASSIGN_OR_RETURN(of.query, Packed(ctx, 0, of));
  ASSIGN_OR_RETURN(of.key, Packed(ctx, 1, of));
  ASSIGN_OR_RETURN(of.value, Packed(ctx, 2, of));
  RETURN_IF_ERROR(ReadHeads(ctx, of));
  RETURN_IF_ERROR(ReadGates(ctx, of));
  RETURN_IF_ERROR(ReadState(ctx, of));
  return of;
}

// Returns one token's numbers in a shape of rank 4, whose size 0 stands for
// those that are left.
absl::StatusOr<ValueId> TokenOf(NodeContext& ctx, ValueId packed, int64_t token,
                                std::vector<int64_t> dims) {
  ASSIGN_OR_RETURN(const ValueId row,
                   SliceAxis(ctx, packed, {.axis = 1, .start = token}));
  int64_t left = ctx.shape(row).elements();
  for (int64_t dim : dims) left /= dim == 0 ? 1 : dim;
  for (int64_t& dim : dims) dim = dim == 0 ? left : dim;
  return ctx.Reshape(row, dims);
}

absl::StatusOr<ValueId> Product(NodeContext& ctx, ValueId a, ValueId b,
                                double scale) {
  BatchMatMulAttributes product;
  product.scale = scale;
  return ctx.Emit(Op::kBatchMatMul, {a, b}, product);
}

// Updates the state with one token and returns the token's output, [B, heads,
// group, value_size].
absl::StatusOr<ValueId> Attend(NodeContext& ctx, LinearAttention& of,
                               int64_t token) {
  const int64_t b = of.batch, h = of.heads;
  if (of.decay.valid()) {
    ASSIGN_OR_RETURN(const ValueId log,
                     TokenOf(ctx, of.decay, token, {b, h, 0, 1}));
    ASSIGN_OR_RETURN(const ValueId factor, ctx.Unary(Unary::kExp, log));
    ASSIGN_OR_RETURN(of.state, ctx.Binary(Binary::kMultiply, of.state, factor));
  }
  ASSIGN_OR_RETURN(ValueId value,
                   TokenOf(ctx, of.value, token, {b, h, 1, of.value_size}));
  if (of.beta.valid()) {
    ASSIGN_OR_RETURN(const ValueId row,
                     TokenOf(ctx, of.key, token, {b, h, 1, of.key_size}));
    ASSIGN_OR_RETURN(const ValueId known, Product(ctx, row, of.state, 1));
    ASSIGN_OR_RETURN(const ValueId news,
                     ctx.Binary(Binary::kSubtract, value, known));
    ASSIGN_OR_RETURN(const ValueId rate,
                     TokenOf(ctx, of.beta, token, {b, 0, 1, 1}));
    ASSIGN_OR_RETURN(value, ctx.Binary(Binary::kMultiply, news, rate));
  }
  ASSIGN_OR_RETURN(const ValueId column,
                   TokenOf(ctx, of.key, token, {b, h, of.key_size, 1}));
  ASSIGN_OR_RETURN(const ValueId added,
                   ctx.Binary(Binary::kMultiply, column, value));
  ASSIGN_OR_RETURN(of.state, Plus(ctx, of.state, added));
  ASSIGN_OR_RETURN(const ValueId query, TokenOf(ctx, of.query, token,
                                                {b, h, of.group, of.key_size}));
  return Product(ctx, query, of.state, of.scale);
}

absl::Status LowerLinearAttention(NodeContext& ctx) {
  ASSIGN_OR_RETURN(LinearAttention of, ReadLinearAttention(ctx));
  ValueIds rows;
  const int64_t cells = of.heads * of.group * of.value_size;
  for (int64_t token = 0; token < of.tokens; ++token) {
    ASSIGN_OR_RETURN(const ValueId y, Attend(ctx, of, token));
    ASSIGN_OR_RETURN(rows.emplace_back(), ctx.Reshape(y, {of.batch, 1, cells}));
  }
  ASSIGN_OR_RETURN(const ValueId all, Concat(ctx, rows, 1));
  ASSIGN_OR_RETURN(const ValueId query, ctx.Input(0));
  ASSIGN_OR_RETURN(const ValueId y, ctx.Cast(all, ctx.dtype(query)));
  // Without a past state, the new one has the queries' type.
  ASSIGN_OR_RETURN(const ValueId like, ctx.Input(ctx.has_input(3) ? 3 : 0));
  ASSIGN_OR_RETURN(const ValueId state, ctx.Cast(of.state, ctx.dtype(like)));
  ctx.Set(0, y);
  ctx.Set(1, state);
  return absl::OkStatus();
}

// Returns the past cells and then the input's, [B, C, length + kernel - 1].
absl::StatusOr<ValueId> WithPast(NodeContext& ctx, ValueId x, int64_t past) {
  const Shape shape = ctx.shape(x);
  ASSIGN_OR_RETURN(const Shape wanted,
                   MakeShape(ctx, {shape[0], shape[1], past}));
  ValueId before;
  if (ctx.has_input(3)) {
    ASSIGN_OR_RETURN(before, ctx.Input(3));
    if (ctx.shape(before) != wanted) {
      return ctx.Refuse("past_state is ", ctx.shape(before).ToString(),
                        " and must be ", wanted.ToString());
    }
  } else {
    ASSIGN_OR_RETURN(before, Filled(ctx, ctx.dtype(x), wanted, 0));
  }
  return Concat(ctx, {before, x}, 2);
}

absl::Status LowerCausalConv(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const ValueId x, ctx.Input(0));
  ASSIGN_OR_RETURN(const ValueId w, ctx.Input(1));
  RETURN_IF_ERROR(RequireFloating(ctx, x));
  RETURN_IF_ERROR(RequireRank(ctx, x, 3, 3));
  const Shape shape = ctx.shape(x), filter = ctx.shape(w);
  if (filter.rank() != 3 || filter[0] != shape[1] || filter[1] != 1 ||
      filter[2] < 1 || shape.elements() == 0) {
    return ctx.Refuse("weights ", filter.ToString(), " do not fit ",
                      shape.ToString());
  }
  ASSIGN_OR_RETURN(const int activation,
                   Choice(ctx, "activation", {"none", "silu", "swish"}));
  const int64_t past = filter[2] - 1;
  ASSIGN_OR_RETURN(const ValueId padded, WithPast(ctx, x, past));
  ASSIGN_OR_RETURN(const ValueId image, AtLeastImage(ctx, padded));
  ASSIGN_OR_RETURN(const ValueId weights, AtLeastImage(ctx, w));
  ValueIds operands{image, weights};
  Conv2dAttributes conv;
  conv.groups = shape[1];
  if (ctx.has_input(2)) {
    ASSIGN_OR_RETURN(operands.emplace_back(), ctx.Input(2));
    conv.epilogue.bias = true;
  }
  ASSIGN_OR_RETURN(const ValueId sums, ctx.Emit(Op::kConv2d, operands, conv));
  ASSIGN_OR_RETURN(ValueId y, WithRank(ctx, sums, 3));
  if (activation != 0) {
    ASSIGN_OR_RETURN(y, ctx.Unary(Unary::kSilu, y));
  }
  const AxisRange last{2, ctx.shape(padded)[2] - past, past, 1};
  ASSIGN_OR_RETURN(const ValueId state, SliceAxis(ctx, padded, last));
  ctx.Set(0, y);
  ctx.Set(1, state);
  return absl::OkStatus();
}

}  // namespace

absl::Span<const OperatorEntry> LinearAttentionOperators() {
  static const OperatorEntry rows[] = {
      {"", "CausalConvWithState", "convolution", kShapes, LowerCausalConv},
      {"", "LinearAttention", "attention", kShapes, LowerLinearAttention},
  };
  return rows;
}

}  // namespace gpupool::engine::onnx_import
