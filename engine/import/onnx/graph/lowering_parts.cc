#include "engine/import/onnx/graph/lowering_parts.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_join.h"
#include "engine/base/status_macros.h"
#include "engine/import/onnx/graph/graph_importer.h"

namespace gpupool::engine::onnx_import {

absl::Status Finish(NodeContext& ctx, absl::StatusOr<ValueId> y) {
  if (!y.ok()) return y.status();
  ctx.Set(0, *y);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<int>> NormalAxes(const NodeContext& ctx,
                                            absl::Span<const int64_t> axes,
                                            int rank) {
  if (axes.size() > kMaxRank) {
    return ctx.Refuse("names ", axes.size(), " axes; the limit is ", kMaxRank);
  }
  std::vector<int> normal;
  for (int64_t axis : axes) {
    ASSIGN_OR_RETURN(const int one, ctx.Axis(axis, rank));
    normal.push_back(one);
  }
  std::sort(normal.begin(), normal.end());
  if (std::adjacent_find(normal.begin(), normal.end()) != normal.end()) {
    return ctx.Refuse("names an axis twice");
  }
  return normal;
}

std::vector<int> AllAxes(int rank) {
  std::vector<int> axes(static_cast<size_t>(rank));
  std::iota(axes.begin(), axes.end(), 0);
  return axes;
}

absl::StatusOr<int> Choice(const NodeContext& ctx, absl::string_view name,
                           std::initializer_list<absl::string_view> words) {
  const absl::StatusOr<std::string> word = ctx.String(name, *words.begin());
  if (!word.ok()) return word.status();
  const auto* const found = std::find(words.begin(), words.end(), *word);
  if (found != words.end()) return static_cast<int>(found - words.begin());
  return ctx.Refuse(name, " '", *word, "' must be ",
                    absl::StrJoin(words, " or "));
}

absl::StatusOr<std::vector<int64_t>> KnownInts(NodeContext& ctx, int input,
                                               absl::string_view what) {
  ASSIGN_OR_RETURN(const HostTensor tensor, ctx.Known(input, what));
  if (tensor.shape.rank() > 1) {
    return ctx.Refuse(what, " must be a list, not ", tensor.shape.ToString());
  }
  return tensor.Integers();
}

absl::StatusOr<int64_t> KnownInt(NodeContext& ctx, int input,
                                 absl::string_view what) {
  ASSIGN_OR_RETURN(const std::vector<int64_t> ints,
                   KnownInts(ctx, input, what));
  if (ints.size() != 1) return ctx.Refuse(what, " must be one number");
  return ints[0];
}

absl::StatusOr<double> KnownFloat(NodeContext& ctx, int input,
                                  absl::string_view what) {
  ASSIGN_OR_RETURN(const HostTensor tensor, ctx.Known(input, what));
  if (tensor.numbers.size() != 1) {
    return ctx.Refuse(what, " must be one number, not ",
                      tensor.shape.ToString());
  }
  return tensor.numbers[0];
}

absl::StatusOr<std::vector<int64_t>> AttributeOrInput(NodeContext& ctx,
                                                      const MovedInts& where) {
  if (ctx.opset() < where.input_since) return ctx.Ints(where.name, {});
  if (!ctx.has_input(where.input)) return std::vector<int64_t>{};
  return KnownInts(ctx, where.input, where.name);
}

absl::StatusOr<Shape> MakeShape(const NodeContext& ctx,
                                absl::Span<const int64_t> dims) {
  absl::StatusOr<Shape> shape = Shape::CreateMaybeEmpty(dims);
  if (!shape.ok()) return ctx.Refuse(shape.status().message());
  return shape;
}

int64_t Product(const Shape& shape, int from, int to) {
  int64_t product = 1;
  for (int i = from; i < to; ++i) product *= shape[i];
  return product;
}

std::vector<int64_t> Dims(const Shape& shape) {
  return {shape.dims().begin(), shape.dims().end()};
}

absl::StatusOr<Shape> BroadcastShape(const NodeContext& ctx, const Shape& a,
                                     const Shape& b) {
  const int rank = std::max(a.rank(), b.rank());
  std::vector<int64_t> dims(static_cast<size_t>(rank));
  for (int i = 0; i < rank; ++i) {
    const int in_a = i - (rank - a.rank());
    const int in_b = i - (rank - b.rank());
    const int64_t x = in_a < 0 ? 1 : a[in_a];
    const int64_t y = in_b < 0 ? 1 : b[in_b];
    if (x != y && x != 1 && y != 1) {
      return ctx.Refuse("shapes ", a.ToString(), " and ", b.ToString(),
                        " do not broadcast");
    }
    dims[static_cast<size_t>(i)] = x == 1 ? y : x;
  }
  return MakeShape(ctx, dims);
}

absl::StatusOr<ValueId> Filled(NodeContext& ctx, DType dtype,
                               const Shape& shape, double number) {
  return ctx.Constant({dtype, shape, {number}});
}

absl::Status ReserveNumbers(NodeContext& ctx, int64_t count) {
  if (count > kMaxListedNumbers) {
    return ctx.Refuse("a constant of ", count, " numbers is over the limit of ",
                      kMaxListedNumbers);
  }
  absl::Status spent = ctx.importer().values().Spend(count);
  return spent.ok() ? spent : ctx.Refuse(spent.message());
}

absl::StatusOr<ValueId> Positions(NodeContext& ctx, int64_t size) {
  RETURN_IF_ERROR(ReserveNumbers(ctx, size));
  ASSIGN_OR_RETURN(const Shape shape, MakeShape(ctx, {size}));
  HostTensor positions{DType::kInt64, shape, {}};
  positions.numbers.resize(static_cast<size_t>(size));
  std::iota(positions.numbers.begin(), positions.numbers.end(), 0);
  return ctx.Constant(std::move(positions));
}

absl::StatusOr<ValueId> ReshapeMaybeEmpty(NodeContext& ctx, ValueId x,
                                          absl::Span<const int64_t> dims) {
  if (ctx.shape(x).elements() > 0) return ctx.Reshape(x, dims);
  ASSIGN_OR_RETURN(const Shape shape, MakeShape(ctx, dims));
  if (shape.elements() > 0) {
    return ctx.Refuse("an empty value cannot become ", shape.ToString());
  }
  return Filled(ctx, ctx.dtype(x), shape, 0);
}

absl::StatusOr<ValueId> SliceAxis(NodeContext& ctx, ValueId x,
                                  const AxisRange& range) {
  const Shape shape = ctx.shape(x);
  if (range.start == 0 && range.step == 1 && range.size == shape[range.axis]) {
    return x;
  }
  SliceAttributes slice;
  slice.starts.assign(static_cast<size_t>(shape.rank()), 0);
  slice.steps.assign(static_cast<size_t>(shape.rank()), 1);
  slice.sizes = Dims(shape);
  const auto axis = static_cast<size_t>(range.axis);
  slice.starts[axis] = range.start;
  slice.steps[axis] = range.step;
  slice.sizes[axis] = range.size;
  if (range.size == 0) {
    ASSIGN_OR_RETURN(const Shape empty, MakeShape(ctx, slice.sizes));
    return Filled(ctx, ctx.dtype(x), empty, 0);
  }
  return ctx.Emit(Op::kSlice, {x}, std::move(slice));
}

absl::StatusOr<ValueId> Concat(NodeContext& ctx,
                               absl::Span<const ValueId> parts, int axis) {
  ValueIds full;
  // Empty parts add nothing to the output.
  for (ValueId part : parts) {
    if (ctx.shape(part).elements() > 0) full.push_back(part);
  }
  if (full.empty()) return ctx.Emit(Op::kConcat, parts, AxisAttributes{axis});
  if (full.size() == 1) return full[0];
  return ctx.Emit(Op::kConcat, full, AxisAttributes{axis});
}

absl::StatusOr<ValueId> TakeRow(NodeContext& ctx, ValueId x, int axis,
                                int64_t index) {
  ASSIGN_OR_RETURN(const ValueId row,
                   SliceAxis(ctx, x, {.axis = axis, .start = index}));
  std::vector<int64_t> dims = Dims(ctx.shape(row));
  dims.erase(dims.begin() + axis);
  return ctx.Reshape(row, dims);
}

absl::StatusOr<ValueId> PadEnds(NodeContext& ctx, ValueId x,
                                std::vector<int64_t> after) {
  const auto zero = [](int64_t cells) { return cells == 0; };
  if (std::all_of(after.begin(), after.end(), zero)) return x;
  PadAttributes pad;
  pad.before.assign(after.size(), 0);
  pad.after = std::move(after);
  pad.value = 0;
  return ctx.Emit(Op::kPad, {x}, std::move(pad));
}

absl::StatusOr<ValueId> MoveLast(NodeContext& ctx, ValueId x, int axis) {
  std::vector<int> permutation = AllAxes(ctx.rank(x));
  permutation.erase(permutation.begin() + axis);
  permutation.push_back(axis);
  return ctx.Transpose(x, permutation);
}

absl::StatusOr<ValueId> MoveFromLast(NodeContext& ctx, ValueId x, int axis) {
  const int last = ctx.rank(x) - 1;
  std::vector<int> permutation = AllAxes(last);
  permutation.insert(permutation.begin() + axis, last);
  return ctx.Transpose(x, permutation);
}

absl::StatusOr<ValueId> PerChannel(NodeContext& ctx, ValueId x, int rank) {
  std::vector<int64_t> dims(static_cast<size_t>(rank), 1);
  dims[1] = ctx.shape(x).elements();
  return ctx.Reshape(x, dims);
}

absl::StatusOr<ValueId> Plus(NodeContext& ctx, ValueId a, ValueId b) {
  // kAdd takes two values of one type and shape, while kBinary broadcasts.
  if (ctx.value(a).type() == ctx.value(b).type() && IsFloating(ctx.dtype(a))) {
    return ctx.Emit(Op::kAdd, {a, b});
  }
  return ctx.Binary(BinaryFunction::kAdd, a, b);
}

absl::Status RequireFloating(const NodeContext& ctx, ValueId x) {
  if (IsFloating(ctx.dtype(x))) return absl::OkStatus();
  return ctx.Refuse("needs floating point numbers, not ",
                    DTypeName(ctx.dtype(x)));
}

absl::Status RequireRank(const NodeContext& ctx, ValueId x, int at_least,
                         int at_most) {
  if (ctx.rank(x) >= at_least && ctx.rank(x) <= at_most) {
    return absl::OkStatus();
  }
  return ctx.Refuse("needs ", at_least, " to ", at_most,
                    " dimensions, but the input is ", ctx.shape(x).ToString());
}

}  // namespace gpupool::engine::onnx_import
