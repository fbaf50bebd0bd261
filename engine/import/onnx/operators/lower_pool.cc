// Pools and global pools over one to three spatial axes, and unpooling.
#include <algorithm>
#include <cmath>
#include <utility>

#include "engine/base/status_macros.h"
#include "engine/import/onnx/graph/lowering_parts.h"
#include "engine/import/onnx/graph/lowerings.h"
#include "engine/import/onnx/operators/pools.h"
#include "engine/import/onnx/operators/window_attributes.h"

namespace gpupool::engine::onnx_import {
namespace {

using Binary = BinaryFunction;

Pool2dAttributes ToPool(const SpatialWindow& window) {
  Pool2dAttributes pool;
  pool.kernel = ToExtent(window.kernel);
  pool.stride = ToExtent(window.strides);
  pool.padding = Padding(ToExtent(window.begin), ToExtent(window.end));
  pool.dilation = ToExtent(window.dilations);
  pool.ceil_mode = window.ceil_mode;
  return pool;
}

absl::StatusOr<SpatialWindow> ReadPoolWindow(NodeContext& ctx, ValueId x) {
  WindowSource source;
  ASSIGN_OR_RETURN(source.input, SpatialSizes(ctx, x));
  return ReadWindow(ctx, source);
}

// Windows along an axis. Cell i has the one from i * stride - begin on.
struct WindowStarts {
  int64_t stride = 1;
  int64_t begin = 0;
};

// Returns the first positions of windows along one axis of y, in a value of y's
// rank.
absl::StatusOr<ValueId> Starts(NodeContext& ctx, const Shape& y, int axis,
                               const WindowStarts& windows) {
  RETURN_IF_ERROR(ReserveNumbers(ctx, y[axis]));
  std::vector<int64_t> dims(static_cast<size_t>(y.rank()), 1);
  dims[static_cast<size_t>(axis)] = y[axis];
  ASSIGN_OR_RETURN(const Shape shape, MakeShape(ctx, dims));
  HostTensor starts{DType::kInt64, shape, {}};
  for (int64_t i = 0; i < y[axis]; ++i) {
    starts.numbers.push_back(
        static_cast<double>(i * windows.stride - windows.begin));
  }
  return ctx.Constant(std::move(starts));
}

absl::StatusOr<ValueId> Scaled(NodeContext& ctx, ValueId x, int64_t factor) {
  return ctx.Binary(Binary::kMultiply, x, static_cast<double>(factor));
}

// Converts positions of maxima in their windows to positions in the whole of x.
// `argmax` must have x's rank. `x` is passed by value, since adding nodes moves
// the shapes that ctx.shape() refers to.
absl::StatusOr<ValueId> WholeIndices(NodeContext& ctx, ValueId argmax, Shape x,
                                     const SpatialWindow& window) {
  ASSIGN_OR_RETURN(const int64_t column_major, ctx.Int("storage_order", 0));
  const int rank = x.rank();
  const Shape y = ctx.shape(argmax);
  ASSIGN_OR_RETURN(ValueId rest, ctx.Cast(argmax, DType::kInt64));
  // Offsets of the image and the channel.
  const int64_t cells = Product(x, 2, rank);
  ASSIGN_OR_RETURN(const ValueId image,
                   Starts(ctx, y, 0, {.stride = x[1] * cells}));
  ASSIGN_OR_RETURN(const ValueId channel, Starts(ctx, y, 1, {.stride = cells}));
  ASSIGN_OR_RETURN(ValueId index, ctx.Binary(Binary::kAdd, image, channel));
  for (int axis = rank - 1; axis >= 2; --axis) {
    const auto i = static_cast<size_t>(axis) - 2;
    const auto kernel = static_cast<double>(window.kernel[i]);
    ASSIGN_OR_RETURN(const ValueId in_window,
                     ctx.Binary(Binary::kModulo, rest, kernel));
    ASSIGN_OR_RETURN(rest, ctx.Binary(Binary::kDivide, rest, kernel));
    ASSIGN_OR_RETURN(const ValueId offset,
                     Scaled(ctx, in_window, window.dilations[i]));
    ASSIGN_OR_RETURN(const ValueId start, Starts(ctx, y, axis,
                                                 {.stride = window.strides[i],
                                                  .begin = window.begin[i]}));
    ASSIGN_OR_RETURN(const ValueId cell,
                     ctx.Binary(Binary::kAdd, start, offset));
    const int64_t stride =
        column_major != 0 ? Product(x, 2, axis) : Product(x, axis + 1, rank);
    ASSIGN_OR_RETURN(const ValueId part, Scaled(ctx, cell, stride));
    ASSIGN_OR_RETURN(index, ctx.Binary(Binary::kAdd, index, part));
  }
  return index;
}

absl::Status LowerMaxPool(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const ValueId x, ctx.Input(0));
  ASSIGN_OR_RETURN(const SpatialWindow window, ReadPoolWindow(ctx, x));
  const DType dtype = ctx.dtype(x);
  Pool2dAttributes pool = ToPool(AtLeastImage(window));
  pool.with_argmax = ctx.wants_output(1) || ctx.training();
  ASSIGN_OR_RETURN(const ValueId floating,
                   ctx.Cast(x, IsFloating(dtype) ? dtype : DType::kFloat32));
  ASSIGN_OR_RETURN(const ValueId image, AtLeastImage(ctx, floating));
  ASSIGN_OR_RETURN(const ValueIds outputs,
                   ctx.EmitAll(Op::kMaxPool, {image}, pool));
  ASSIGN_OR_RETURN(const ValueId y, ctx.Cast(outputs[0], dtype));
  RETURN_IF_ERROR(Finish(ctx, WithRank(ctx, y, ctx.rank(x))));
  if (!ctx.wants_output(1)) return absl::OkStatus();
  ASSIGN_OR_RETURN(const ValueId argmax,
                   WithRank(ctx, outputs[1], ctx.rank(x)));
  ASSIGN_OR_RETURN(const ValueId indices,
                   WholeIndices(ctx, argmax, ctx.shape(x), window));
  ctx.Set(1, indices);
  return absl::OkStatus();
}

// Returns whether a pool changes nothing. Exporters write such adaptive pools
// as windows of one cell.
bool IsIdentity(const SpatialWindow& window) {
  const auto all = [](const std::vector<int64_t>& numbers, int64_t wanted) {
    return std::all_of(numbers.begin(), numbers.end(),
                       [wanted](int64_t n) { return n == wanted; });
  };
  return all(window.kernel, 1) && all(window.strides, 1) &&
         all(window.begin, 0) && all(window.end, 0);
}

absl::Status LowerAveragePool(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const ValueId x, ctx.Input(0));
  return Finish(ctx, AveragePool(ctx, x));
}

absl::Status LowerGlobalAveragePool(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const ValueId x, ctx.Input(0));
  return Finish(ctx, GlobalAveragePool(ctx, x));
}

absl::Status LowerGlobalMaxPool(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const ValueId x, ctx.Input(0));
  RETURN_IF_ERROR(RequireRank(ctx, x, 3));
  std::vector<int> axes = AllAxes(ctx.rank(x));
  axes.erase(axes.begin(), axes.begin() + 2);
  return Finish(ctx, ctx.Reduce(ReduceFunction::kMax, x, axes, true));
}

// Returns p of the norm. Opset 1 has it as a floating number.
absl::StatusOr<double> ReadNorm(const NodeContext& ctx) {
  double p = 2;
  if (ctx.opset() < 2) {
    ASSIGN_OR_RETURN(p, ctx.Float("p", 2));
  } else {
    ASSIGN_OR_RETURN(const int64_t whole, ctx.Int("p", 2));
    p = static_cast<double>(whole);
  }
  if (!(p > 0)) return ctx.Refuse("p ", p, " must be above 0");
  return p;
}

// p = 1 and p = 2 have cheap forms.
absl::StatusOr<ValueId> Powered(NodeContext& ctx, ValueId x, double p) {
  if (p == 2) return ctx.Binary(Binary::kMultiply, x, x);
  ASSIGN_OR_RETURN(const ValueId size, ctx.Unary(UnaryFunction::kAbs, x));
  return p == 1 ? size : ctx.Binary(Binary::kPower, size, p);
}

absl::StatusOr<ValueId> Root(NodeContext& ctx, ValueId x, double p) {
  if (p == 1) return x;
  if (p == 2) return ctx.Unary(UnaryFunction::kSqrt, x);
  return ctx.Binary(Binary::kPower, x, 1 / p);
}

absl::Status LowerGlobalLpPool(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const ValueId x, ctx.Input(0));
  RETURN_IF_ERROR(RequireRank(ctx, x, 3));
  ASSIGN_OR_RETURN(const double p, ReadNorm(ctx));
  std::vector<int> axes = AllAxes(ctx.rank(x));
  axes.erase(axes.begin(), axes.begin() + 2);
  ASSIGN_OR_RETURN(const ValueId powered, Powered(ctx, x, p));
  ASSIGN_OR_RETURN(const ValueId sum,
                   ctx.Reduce(ReduceFunction::kSum, powered, axes, true));
  return Finish(ctx, Root(ctx, sum, p));
}

// The sum over a window is its average times its cells.
absl::Status LowerLpPool(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const ValueId x, ctx.Input(0));
  ASSIGN_OR_RETURN(const double p, ReadNorm(ctx));
  ASSIGN_OR_RETURN(const SpatialWindow window, ReadPoolWindow(ctx, x));
  if (window.ceil_mode) return ctx.Unsupported("ceil_mode is not");
  const Pool2dAttributes pool = ToPool(AtLeastImage(window));
  ASSIGN_OR_RETURN(const ValueId powered, Powered(ctx, x, p));
  ASSIGN_OR_RETURN(const ValueId image, AtLeastImage(ctx, powered));
  ASSIGN_OR_RETURN(const ValueId mean, ctx.Emit(Op::kAvgPool, {image}, pool));
  double cells = 1;
  for (int64_t size : window.kernel) cells *= static_cast<double>(size);
  ASSIGN_OR_RETURN(const ValueId sum,
                   ctx.Binary(Binary::kMultiply, mean, cells));
  ASSIGN_OR_RETURN(const ValueId y, Root(ctx, sum, p));
  return Finish(ctx, WithRank(ctx, y, ctx.rank(x)));
}

// Scatters the numbers to the positions of their maxima, in a value of the
// inferred shape. If output_shape is larger, pads it with zeros at the end.
absl::Status LowerMaxUnpool(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const ValueId x, ctx.Input(0));
  ASSIGN_OR_RETURN(const ValueId indices, ctx.Input(1));
  ASSIGN_OR_RETURN(const SpatialWindow window, ReadPoolWindow(ctx, x));
  if (ctx.shape(x) != ctx.shape(indices)) {
    return ctx.Refuse("indices ", ctx.shape(indices).ToString(),
                      " must have the input's shape ", ctx.shape(x).ToString());
  }
  std::vector<int64_t> dims = Dims(ctx.shape(x));
  for (size_t i = 0; i < window.axes(); ++i) {
    if (dims[i + 2] > kMaxElements / kMaxWindowCells) {
      return ctx.Refuse("an axis of ", dims[i + 2], " is too large");
    }
    dims[i + 2] = (dims[i + 2] - 1) * window.strides[i] + window.kernel[i] -
                  window.begin[i] - window.end[i];
    if (dims[i + 2] < 1) return ctx.Refuse("the pads leave nothing");
  }
  ASSIGN_OR_RETURN(const Shape shape, MakeShape(ctx, dims));
  const int64_t cells[] = {shape.elements()};
  const int64_t numbers[] = {ctx.shape(x).elements()};
  ASSIGN_OR_RETURN(const Shape flat_shape, MakeShape(ctx, cells));
  ASSIGN_OR_RETURN(const ValueId zeros,
                   Filled(ctx, ctx.dtype(x), flat_shape, 0));
  ASSIGN_OR_RETURN(const ValueId flat_x, ctx.Reshape(x, numbers));
  ASSIGN_OR_RETURN(const ValueId flat_at, ctx.Reshape(indices, numbers));
  ASSIGN_OR_RETURN(const ValueId flat,
                   ctx.Emit(Op::kScatterElements, {zeros, flat_at, flat_x},
                            ScatterAttributes{}));
  ASSIGN_OR_RETURN(const ValueId y, ctx.Reshape(flat, dims));
  if (!ctx.has_input(2)) return Finish(ctx, y);
  ASSIGN_OR_RETURN(std::vector<int64_t> after,
                   KnownInts(ctx, 2, "the output shape"));
  if (after.size() != dims.size()) {
    return ctx.Refuse("output_shape has ", after.size(), " numbers instead of ",
                      dims.size());
  }
  for (size_t i = 0; i < dims.size(); ++i) {
    if (after[i] < dims[i] || after[i] > kMaxElements) {
      return ctx.Refuse("output_shape ", after[i], " of axis ", i,
                        " must be at least ", dims[i]);
    }
    after[i] -= dims[i];
  }
  return Finish(ctx, PadEnds(ctx, y, std::move(after)));
}

}  // namespace

absl::StatusOr<ValueId> AveragePool(NodeContext& ctx, ValueId x) {
  ASSIGN_OR_RETURN(const SpatialWindow window, ReadPoolWindow(ctx, x));
  if (IsIdentity(window)) return x;
  ASSIGN_OR_RETURN(const int64_t include, ctx.Int("count_include_pad", 0));
  Pool2dAttributes pool = ToPool(AtLeastImage(window));
  pool.exclude_padding = include == 0;
  ASSIGN_OR_RETURN(const ValueId image, AtLeastImage(ctx, x));
  ASSIGN_OR_RETURN(const ValueId y, ctx.Emit(Op::kAvgPool, {image}, pool));
  return WithRank(ctx, y, ctx.rank(x));
}

absl::StatusOr<ValueId> GlobalAveragePool(NodeContext& ctx, ValueId x) {
  RETURN_IF_ERROR(RequireRank(ctx, x, 3));
  const int rank = ctx.rank(x);
  if (rank == 4 && IsFloating(ctx.dtype(x))) {
    ASSIGN_OR_RETURN(const ValueId y, ctx.Emit(Op::kGlobalAvgPool, {x}));
    const int64_t dims[] = {ctx.shape(x)[0], ctx.shape(x)[1], 1, 1};
    return ctx.Reshape(y, dims);
  }
  std::vector<int> axes = AllAxes(rank);
  axes.erase(axes.begin(), axes.begin() + 2);
  return ctx.Reduce(ReduceFunction::kMean, x, axes, true);
}

absl::Span<const OperatorEntry> PoolOperators() {
  static constexpr absl::string_view kFamily = "pooling";
  static const OperatorEntry rows[] = {
      {"", "AveragePool", kFamily, kShapes, LowerAveragePool},
      {"", "GlobalAveragePool", kFamily, kShapes, LowerGlobalAveragePool},
      {"", "GlobalLpPool", kFamily, kShapes, LowerGlobalLpPool},
      {"", "GlobalMaxPool", kFamily, kShapes, LowerGlobalMaxPool},
      {"", "LpPool", kFamily, kShapes, LowerLpPool},
      {"", "MaxPool", kFamily, kShapes, LowerMaxPool},
      {"", "MaxUnpool", kFamily, kNumbers, LowerMaxUnpool},
  };
  return rows;
}

}  // namespace gpupool::engine::onnx_import
