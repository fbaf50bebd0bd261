// Lowers reductions over axes, arg-max and cumulative sums.
#include <algorithm>
#include <utility>

#include "engine/base/status_macros.h"
#include "engine/import/onnx/graph/lowering_parts.h"
#include "engine/import/onnx/graph/lowerings.h"

namespace gpupool::engine::onnx_import {
namespace {

using Unary = UnaryFunction;
using Binary = BinaryFunction;

struct Reduction {
  ValueId x;
  std::vector<int> axes;  // empty: no reduction
  bool keep_dims = true;
};

// Reads the axes, which are an input from opset `input_since` on.
absl::StatusOr<Reduction> ReadReduction(NodeContext& ctx, int input_since) {
  Reduction reduction;
  ASSIGN_OR_RETURN(reduction.x, ctx.Input(0));
  ASSIGN_OR_RETURN(const int64_t keep, ctx.Int("keepdims", 1));
  reduction.keep_dims = keep != 0;
  ASSIGN_OR_RETURN(const std::vector<int64_t> axes,
                   AttributeOrInput(ctx, {1, "axes", input_since}));
  ASSIGN_OR_RETURN(const int64_t none, ctx.Int("noop_with_empty_axes", 0));
  const int rank = ctx.rank(reduction.x);
  // No axes mean all axes, unless noop_with_empty_axes is set.
  if (axes.empty()) {
    if (none == 0) reduction.axes = AllAxes(rank);
    return reduction;
  }
  ASSIGN_OR_RETURN(reduction.axes, NormalAxes(ctx, axes, rank));
  return reduction;
}

absl::StatusOr<ValueId> Apply(NodeContext& ctx, const Reduction& reduction,
                              ReduceFunction function, ValueId x) {
  if (reduction.axes.empty()) return x;
  return ctx.Reduce(function, x, reduction.axes, reduction.keep_dims);
}

template <ReduceFunction function, int input_since>
absl::Status LowerReduce(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const Reduction reduction, ReadReduction(ctx, input_since));
  return Finish(ctx, Apply(ctx, reduction, function, reduction.x));
}

// Uses kGlobalAvgPool, which has its own kernel, for the mean over height and
// width of images.
absl::Status LowerReduceMean(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const Reduction reduction, ReadReduction(ctx, 18));
  const Shape shape = ctx.shape(reduction.x);
  if (shape.rank() != 4 || reduction.axes != std::vector<int>{2, 3} ||
      !IsFloating(ctx.dtype(reduction.x))) {
    return Finish(ctx,
                  Apply(ctx, reduction, ReduceFunction::kMean, reduction.x));
  }
  ASSIGN_OR_RETURN(const ValueId y,
                   ctx.Emit(Op::kGlobalAvgPool, {reduction.x}));
  if (!reduction.keep_dims) return Finish(ctx, y);
  return Finish(ctx, ctx.Reshape(y, {shape[0], shape[1], 1, 1}));
}

absl::Status LowerL1(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const Reduction reduction, ReadReduction(ctx, 18));
  ASSIGN_OR_RETURN(const ValueId size, ctx.Unary(Unary::kAbs, reduction.x));
  return Finish(ctx, Apply(ctx, reduction, ReduceFunction::kSum, size));
}

absl::StatusOr<ValueId> SumOfSquares(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const Reduction reduction, ReadReduction(ctx, 18));
  ASSIGN_OR_RETURN(const ValueId square,
                   ctx.Binary(Binary::kMultiply, reduction.x, reduction.x));
  return Apply(ctx, reduction, ReduceFunction::kSum, square);
}

absl::Status LowerSumSquare(NodeContext& ctx) {
  return Finish(ctx, SumOfSquares(ctx));
}

absl::Status LowerL2(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const ValueId sum, SumOfSquares(ctx));
  return Finish(ctx, ctx.Unary(Unary::kSqrt, sum));
}

absl::Status LowerLogSum(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const Reduction reduction, ReadReduction(ctx, 18));
  ASSIGN_OR_RETURN(const ValueId sum,
                   Apply(ctx, reduction, ReduceFunction::kSum, reduction.x));
  return Finish(ctx, ctx.Unary(Unary::kLog, sum));
}

// Subtracts the maximum first, so that no exponential overflows:
// log(sum(exp(x))) = max + log(sum(exp(x - max))).
absl::Status LowerLogSumExp(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const Reduction reduction, ReadReduction(ctx, 18));
  if (reduction.axes.empty()) return Finish(ctx, reduction.x);
  ASSIGN_OR_RETURN(
      const ValueId maximum,
      ctx.Reduce(ReduceFunction::kMax, reduction.x, reduction.axes, true));
  ASSIGN_OR_RETURN(const ValueId centred,
                   ctx.Binary(Binary::kSubtract, reduction.x, maximum));
  ASSIGN_OR_RETURN(const ValueId powers, ctx.Unary(Unary::kExp, centred));
  ASSIGN_OR_RETURN(const ValueId sum, ctx.Reduce(ReduceFunction::kSum, powers,
                                                 reduction.axes, true));
  ASSIGN_OR_RETURN(const ValueId log, ctx.Unary(Unary::kLog, sum));
  ASSIGN_OR_RETURN(const ValueId y, Plus(ctx, log, maximum));
  if (reduction.keep_dims) return Finish(ctx, y);
  std::vector<int64_t> dims = Dims(ctx.shape(y));
  // Erasing from the last axis keeps the other positions right.
  for (auto axis = reduction.axes.rbegin(); axis != reduction.axes.rend();
       ++axis) {
    dims.erase(dims.begin() + *axis);
  }
  return Finish(ctx, ctx.Reshape(y, dims));
}

template <bool maximum>
absl::Status LowerArg(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const ValueId x, ctx.Input(0));
  ASSIGN_OR_RETURN(const int64_t axis, ctx.Int("axis", 0));
  ASSIGN_OR_RETURN(const int64_t keep, ctx.Int("keepdims", 1));
  ASSIGN_OR_RETURN(const int64_t last, ctx.Int("select_last_index", 0));
  ArgReduceAttributes arg;
  ASSIGN_OR_RETURN(arg.axis, ctx.Axis(axis, ctx.rank(x)));
  arg.maximum = maximum;
  arg.keep_dims = keep != 0;
  arg.last = last != 0;
  return Finish(ctx, ctx.Emit(Op::kArgReduce, {x}, arg));
}

absl::Status LowerCumSum(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const ValueId x, ctx.Input(0));
  ASSIGN_OR_RETURN(const int64_t axis, KnownInt(ctx, 1, "the axis"));
  ASSIGN_OR_RETURN(const int64_t exclusive, ctx.Int("exclusive", 0));
  ASSIGN_OR_RETURN(const int64_t reverse, ctx.Int("reverse", 0));
  CumSumAttributes sum;
  ASSIGN_OR_RETURN(sum.axis, ctx.Axis(axis, ctx.rank(x)));
  sum.exclusive = exclusive != 0;
  sum.reverse = reverse != 0;
  return Finish(ctx, ctx.Emit(Op::kCumSum, {x}, sum));
}

// Moves all cells of an axis on by `cells`, or back if `reverse` is set. Ones
// take the free places.
absl::StatusOr<ValueId> Moved(NodeContext& ctx, ValueId x,
                              const CumSumAttributes& along, int64_t cells) {
  const Shape shape = ctx.shape(x);
  const int64_t size = shape[along.axis];
  cells = std::min(cells, size);
  if (cells == size) return Filled(ctx, ctx.dtype(x), shape, 1);
  ASSIGN_OR_RETURN(const ValueId kept,
                   SliceAxis(ctx, x,
                             {.axis = along.axis,
                              .start = along.reverse ? cells : 0,
                              .size = size - cells}));
  PadAttributes pad;
  pad.before.assign(static_cast<size_t>(shape.rank()), 0);
  pad.after = pad.before;
  auto& side = along.reverse ? pad.after : pad.before;
  side[static_cast<size_t>(along.axis)] = cells;
  pad.value = 1;
  return ctx.Emit(Op::kPad, {kept}, std::move(pad));
}

// Multiplies each cell with the one 1, 2, 4, ... cells before it. After each
// step it is the product of twice as many (Hillis and Steele 1986, doi
// 10.1145/7902.7903).
absl::Status LowerCumProd(NodeContext& ctx) {
  ASSIGN_OR_RETURN(ValueId y, ctx.Input(0));
  ASSIGN_OR_RETURN(const int64_t axis, KnownInt(ctx, 1, "the axis"));
  ASSIGN_OR_RETURN(const int64_t exclusive, ctx.Int("exclusive", 0));
  ASSIGN_OR_RETURN(const int64_t reverse, ctx.Int("reverse", 0));
  CumSumAttributes along;
  ASSIGN_OR_RETURN(along.axis, ctx.Axis(axis, ctx.rank(y)));
  along.reverse = reverse != 0;
  if (ctx.shape(y).elements() == 0) return Finish(ctx, y);
  const int64_t size = ctx.shape(y)[along.axis];
  if (exclusive != 0) {
    ASSIGN_OR_RETURN(y, Moved(ctx, y, along, 1));
  }
  for (int64_t cells = 1; cells < size; cells *= 2) {
    ASSIGN_OR_RETURN(const ValueId before, Moved(ctx, y, along, cells));
    ASSIGN_OR_RETURN(y, ctx.Binary(Binary::kMultiply, y, before));
  }
  return Finish(ctx, y);
}

}  // namespace

absl::Span<const OperatorEntry> ReduceOperators() {
  static constexpr absl::string_view kFamily = "reduction";
  using Function = ReduceFunction;
  static const OperatorEntry rows[] = {
      {"", "ArgMax", kFamily, kShapes, LowerArg<true>},
      {"", "ArgMin", kFamily, kShapes, LowerArg<false>},
      {"", "CumProd", kFamily, kNumbers, LowerCumProd},
      {"", "CumSum", kFamily, kNumbers, LowerCumSum},
      {"", "ReduceL1", kFamily, kNumbers, LowerL1},
      {"", "ReduceL2", kFamily, kNumbers, LowerL2},
      {"", "ReduceLogSum", kFamily, kNumbers, LowerLogSum},
      {"", "ReduceLogSumExp", kFamily, kNumbers, LowerLogSumExp},
      {"", "ReduceMax", kFamily, kNumbers, LowerReduce<Function::kMax, 18>},
      {"", "ReduceMean", kFamily, kNumbers, LowerReduceMean},
      {"", "ReduceMin", kFamily, kNumbers, LowerReduce<Function::kMin, 18>},
      {"", "ReduceProd", kFamily, kNumbers,
       LowerReduce<Function::kProduct, 18>},
      {"", "ReduceSum", kFamily, kNumbers, LowerReduce<Function::kSum, 13>},
      {"", "ReduceSumSquare", kFamily, kNumbers, LowerSumSquare},
  };
  return rows;
}

}  // namespace gpupool::engine::onnx_import
