// Slices, joins, padding, gathers and scatters.
#include <algorithm>
#include <limits>
#include <utility>

#include "absl/types/optional.h"
#include "engine/base/status_macros.h"
#include "engine/import/onnx/graph/graph_importer.h"
#include "engine/import/onnx/graph/lowering_parts.h"
#include "engine/import/onnx/graph/lowerings.h"
#include "engine/import/onnx/graph/stages.h"

namespace gpupool::engine::onnx_import {
namespace {

// Start, end and step of some axes, as in the file.
struct Ranges {
  std::vector<int64_t> starts, ends, axes, steps;
};

absl::StatusOr<Ranges> ReadRanges(NodeContext& ctx) {
  Ranges ranges;
  if (ctx.opset() < 10) {
    ASSIGN_OR_RETURN(ranges.starts, ctx.Ints("starts", {}));
    ASSIGN_OR_RETURN(ranges.ends, ctx.Ints("ends", {}));
    ASSIGN_OR_RETURN(ranges.axes, ctx.Ints("axes", {}));
  } else {
    ASSIGN_OR_RETURN(ranges.starts, KnownInts(ctx, 1, "the starts"));
    ASSIGN_OR_RETURN(ranges.ends, KnownInts(ctx, 2, "the ends"));
    if (ctx.has_input(3)) {
      ASSIGN_OR_RETURN(ranges.axes, KnownInts(ctx, 3, "the axes"));
    }
    if (ctx.has_input(4)) {
      ASSIGN_OR_RETURN(ranges.steps, KnownInts(ctx, 4, "the steps"));
    }
  }
  const size_t count = ranges.starts.size();
  if (ranges.axes.empty()) {
    for (size_t i = 0; i < count; ++i) {
      ranges.axes.push_back(static_cast<int64_t>(i));
    }
  }
  if (ranges.steps.empty()) ranges.steps.assign(count, 1);
  if (ranges.ends.size() != count || ranges.axes.size() != count ||
      ranges.steps.size() != count) {
    return ctx.Refuse("starts, ends, axes and steps differ in length");
  }
  return ranges;
}

// Returns a bound, counted from the end when negative, and clamped to [low,
// high].
int64_t Bound(int64_t bound, int64_t size, int64_t low, int64_t high) {
  // A saturated negative number stays outside. Nothing is added to it.
  if (bound < 0) bound = bound < -size ? -1 : bound + size;
  return std::clamp(bound, low, high);
}

// Python's start:end:step.
struct PythonSlice {
  int64_t start, end, step;
};

// Returns the cells of one axis of `size` cells as Python's x[slice] does.
AxisRange Cells(int axis, int64_t size, const PythonSlice& slice) {
  auto [start, end, step] = slice;
  // Larger steps reach the same cells, and the clamped ones cannot overflow.
  step = std::clamp(step, -size - 1, size + 1);
  AxisRange range{axis, 0, 0, step};
  if (step > 0) {
    start = Bound(start, size, 0, size);
    end = Bound(end, size, 0, size);
    range.size = end > start ? (end - start + step - 1) / step : 0;
  } else {
    start = Bound(start, size, -1, size - 1);
    end = Bound(end, size, -1, size - 1);
    range.size = start > end ? (start - end - step - 1) / -step : 0;
  }
  range.start = range.size > 0 ? start : 0;
  return range;
}

// Slices one axis from a computed start or to a computed end: gathers the cells
// that the host lists.
absl::Status SliceByHost(NodeContext& ctx, ValueId x) {
  ASSIGN_OR_RETURN(const ValueId starts, ctx.Input(1));
  if (ctx.shape(starts).elements() != 1) {
    return ctx.Unsupported(
        "computed starts and ends of several axes are not; slice one axis "
        "after the other");
  }
  std::vector<int64_t> axes{0}, steps{1};
  if (ctx.has_input(3)) {
    ASSIGN_OR_RETURN(axes, KnownInts(ctx, 3, "the axes"));
  }
  if (ctx.has_input(4)) {
    ASSIGN_OR_RETURN(steps, KnownInts(ctx, 4, "the steps"));
  }
  if (axes.size() != 1 || steps.size() != 1) {
    return ctx.Refuse("starts, ends, axes and steps differ in length");
  }
  ASSIGN_OR_RETURN(const int axis, ctx.Axis(axes[0], ctx.rank(x)));
  const int64_t size = ctx.shape(x)[axis];
  const int64_t step = steps[0];
  if (step == 0) return ctx.Refuse("a step is 0");
  HostCall call{.most_rows = size, .needed = {x}};
  call.types = [](int64_t rows) {
    return std::vector<TensorType>{{DType::kInt64, SmallerShape({rows})}};
  };
  call.run = [=](const std::vector<HostTensor>& operands)
      -> absl::StatusOr<HostCall::Results> {
    const std::vector<int64_t> from = operands[0].Integers();
    const std::vector<int64_t> to = operands[1].Integers();
    if (from.size() != 1 || to.size() != 1) {
      return absl::InvalidArgumentError("starts and ends differ in length");
    }
    const AxisRange range =
        Cells(axis, size, {.start = from[0], .end = to[0], .step = step});
    HostTensor cells{DType::kInt64, {}, {}};
    for (int64_t i = 0; i < range.size; ++i) {
      cells.numbers.push_back(
          static_cast<double>(range.start + i * range.step));
    }
    ASSIGN_OR_RETURN(cells.shape, Shape::CreateMaybeEmpty({range.size}));
    return HostCall::Results{range.size, {std::move(cells)}};
  };
  ASSIGN_OR_RETURN(
      const ValueIds cells,
      ComputeOnHost(ctx, {{1, "the starts"}, {2, "the ends"}}, call));
  if (ctx.shape(cells[0]).elements() == 0) {
    return Finish(ctx, SliceAxis(ctx, x, {.axis = axis, .size = 0}));
  }
  return Finish(ctx,
                ctx.Emit(Op::kGather, {x, cells[0]}, AxisAttributes{axis}));
}

absl::Status LowerSlice(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const ValueId x, ctx.Input(0));
  if (ctx.importer().stages().on() && ctx.opset() >= 10 &&
      !(ctx.IsKnown(1) && ctx.IsKnown(2))) {
    return SliceByHost(ctx, x);
  }
  ASSIGN_OR_RETURN(const Ranges ranges, ReadRanges(ctx));
  const Shape shape = ctx.shape(x);
  SliceAttributes slice;
  slice.starts.assign(static_cast<size_t>(shape.rank()), 0);
  slice.steps.assign(static_cast<size_t>(shape.rank()), 1);
  slice.sizes = Dims(shape);
  RETURN_IF_ERROR(NormalAxes(ctx, ranges.axes, shape.rank()).status());
  for (size_t i = 0; i < ranges.axes.size(); ++i) {
    if (ranges.steps[i] == 0) return ctx.Refuse("a step is 0");
    ASSIGN_OR_RETURN(const int axis, ctx.Axis(ranges.axes[i], shape.rank()));
    const AxisRange range = Cells(axis, shape[axis],
                                  {.start = ranges.starts[i],
                                   .end = ranges.ends[i],
                                   .step = ranges.steps[i]});
    const auto at = static_cast<size_t>(axis);
    slice.starts[at] = range.start;
    slice.steps[at] = range.step;
    slice.sizes[at] = range.size;
  }
  ASSIGN_OR_RETURN(const Shape result, MakeShape(ctx, slice.sizes));
  // The ops take no empty values, so the result is a constant.
  if (result.elements() == 0) {
    return Finish(ctx, Filled(ctx, ctx.dtype(x), result, 0));
  }
  const auto forwards = [](int64_t step) { return step > 0; };
  if (result == shape &&
      std::all_of(slice.steps.begin(), slice.steps.end(), forwards)) {
    return Finish(ctx, x);
  }
  return Finish(ctx, ctx.Emit(Op::kSlice, {x}, std::move(slice)));
}

absl::Status LowerConcat(NodeContext& ctx) {
  if (ctx.input_count() < 1) return ctx.Refuse("needs at least one input");
  ValueIds parts;
  for (int i = 0; i < ctx.input_count(); ++i) {
    ASSIGN_OR_RETURN(const ValueId part, ctx.Input(i));
    parts.push_back(part);
  }
  if (ctx.opset() >= 4 && !ctx.has_attribute("axis")) {
    return ctx.Refuse("needs the attribute axis");
  }
  ASSIGN_OR_RETURN(const int64_t at, ctx.Int("axis", 1));
  ASSIGN_OR_RETURN(const int axis, ctx.Axis(at, ctx.rank(parts[0])));
  return Finish(ctx, Concat(ctx, parts, axis));
}

// Returns the sizes of the parts: those given, or `count` parts that are as
// equal as possible.
absl::StatusOr<std::vector<int64_t>> PartSizes(NodeContext& ctx, int64_t size) {
  ASSIGN_OR_RETURN(std::vector<int64_t> sizes,
                   AttributeOrInput(ctx, {1, "split", 13}));
  if (!sizes.empty()) return sizes;
  ASSIGN_OR_RETURN(const int64_t count,
                   ctx.Int("num_outputs", ctx.output_count()));
  if (count < 1 || count != ctx.output_count()) {
    return ctx.Refuse("num_outputs ", count, " is not the number of outputs, ",
                      ctx.output_count());
  }
  const int64_t each = (size + count - 1) / count;
  if (each * count != size && ctx.opset() < 18) {
    return ctx.Refuse(size, " cells cannot be split into ", count,
                      " equal parts");
  }
  for (int64_t i = 0; i < count; ++i) {
    sizes.push_back(std::clamp<int64_t>(size - i * each, 0, each));
  }
  return sizes;
}

absl::Status LowerSplit(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const ValueId x, ctx.Input(0));
  ASSIGN_OR_RETURN(const int64_t at, ctx.Int("axis", 0));
  ASSIGN_OR_RETURN(const int axis, ctx.Axis(at, ctx.rank(x)));
  const int64_t size = ctx.shape(x)[axis];
  ASSIGN_OR_RETURN(const std::vector<int64_t> sizes, PartSizes(ctx, size));
  if (sizes.size() < static_cast<size_t>(ctx.output_count())) {
    return ctx.Refuse(sizes.size(), " parts for ", ctx.output_count(),
                      " outputs");
  }
  int64_t start = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] < 0 || sizes[i] > size - start) {
      return ctx.Refuse("part ", i, " of ", sizes[i], " cells at ", start,
                        " does not fit axis ", axis, " of ", size);
    }
    ASSIGN_OR_RETURN(
        const ValueId part,
        SliceAxis(ctx, x, {.axis = axis, .start = start, .size = sizes[i]}));
    const int output = static_cast<int>(i);
    if (output < ctx.output_count()) ctx.Set(output, part);
    start += sizes[i];
  }
  if (start != size) {
    return ctx.Refuse("the parts have ", start, " of ", size, " cells");
  }
  return absl::OkStatus();
}

// Returns the pads before and after each axis. Negative pads cut.
absl::StatusOr<std::vector<int64_t>> ReadPadSizes(NodeContext& ctx, int rank) {
  std::vector<int64_t> pads;
  if (ctx.opset() < 11) {
    ASSIGN_OR_RETURN(pads, ctx.Ints(ctx.opset() < 2 ? "paddings" : "pads", {}));
  } else {
    ASSIGN_OR_RETURN(pads, KnownInts(ctx, 1, "the pads"));
  }
  std::vector<int64_t> axes;
  for (int i = 0; i < rank; ++i) axes.push_back(i);
  if (ctx.has_input(3)) {
    ASSIGN_OR_RETURN(axes, KnownInts(ctx, 3, "the axes"));
    RETURN_IF_ERROR(NormalAxes(ctx, axes, rank).status());
  }
  if (pads.size() != 2 * axes.size()) {
    return ctx.Refuse(pads.size(), " pads for ", axes.size(), " axes");
  }
  std::vector<int64_t> all(2 * static_cast<size_t>(rank), 0);
  for (size_t i = 0; i < axes.size(); ++i) {
    ASSIGN_OR_RETURN(const int axis, ctx.Axis(axes[i], rank));
    const auto at = static_cast<size_t>(axis);
    all[at] = pads[i];
    all[at + static_cast<size_t>(rank)] = pads[i + axes.size()];
  }
  return all;
}

// Returns the mode, or nothing for "wrap", which repeats the whole axis.
absl::StatusOr<absl::optional<PadMode>> ReadPadMode(const NodeContext& ctx) {
  ASSIGN_OR_RETURN(
      const int mode,
      Choice(ctx, "mode", {"constant", "reflect", "edge", "wrap"}));
  constexpr absl::optional<PadMode> kModes[] = {
      PadMode::kConstant, PadMode::kReflect, PadMode::kEdge, absl::nullopt};
  return kModes[mode];
}

absl::StatusOr<double> PadNumber(NodeContext& ctx) {
  if (ctx.opset() < 11) return ctx.Float("value", 0);
  if (!ctx.has_input(2)) return 0.0;
  return KnownFloat(ctx, 2, "the padding value");
}

// Cuts off what negative pads remove, and sets these pads to 0.
absl::StatusOr<ValueId> CutNegative(NodeContext& ctx, ValueId x,
                                    std::vector<int64_t>& pads) {
  const int rank = ctx.rank(x);
  for (int axis = 0; axis < rank; ++axis) {
    int64_t& before = pads[static_cast<size_t>(axis)];
    int64_t& after = pads[static_cast<size_t>(axis + rank)];
    if (before >= 0 && after >= 0) continue;
    const int64_t size = ctx.shape(x)[axis];
    const int64_t low = before < 0 ? -std::max(before, -size) : 0;
    const int64_t high = after < 0 ? -std::max(after, -size) : 0;
    if (low + high >= size) {
      return ctx.Refuse("pads ", before, " and ", after,
                        " leave nothing of axis ", axis, " of ", size);
    }
    ASSIGN_OR_RETURN(
        x, SliceAxis(ctx, x,
                     {.axis = axis, .start = low, .size = size - low - high}));
    before = std::max<int64_t>(before, 0);
    after = std::max<int64_t>(after, 0);
  }
  return x;
}

// Pads every axis with the cells of its other end, as often as it takes.
absl::StatusOr<ValueId> Wrapped(NodeContext& ctx, ValueId x,
                                const PadAttributes& pad) {
  for (int axis = 0; axis < ctx.rank(x); ++axis) {
    const auto at = static_cast<size_t>(axis);
    const int64_t size = ctx.shape(x)[axis];
    const int64_t before = pad.before[at], after = pad.after[at];
    if (before == 0 && after == 0) continue;
    if (size == 0) return ctx.Refuse("axis ", axis, " has nothing to repeat");
    const int64_t cells = before + size + after;
    RETURN_IF_ERROR(ReserveNumbers(ctx, cells));
    ASSIGN_OR_RETURN(const Shape shape, MakeShape(ctx, {cells}));
    HostTensor indices{DType::kInt64, shape, {}};
    // The first cell lies `before` cells before a whole repetition.
    for (int64_t i = 0, cell = (size - before % size) % size; i < cells; ++i) {
      indices.numbers.push_back(static_cast<double>(cell));
      cell = cell + 1 == size ? 0 : cell + 1;
    }
    const ValueId chosen = ctx.Constant(std::move(indices));
    ASSIGN_OR_RETURN(x,
                     ctx.Emit(Op::kGather, {x, chosen}, AxisAttributes{axis}));
  }
  return x;
}

absl::Status LowerPad(NodeContext& ctx) {
  ASSIGN_OR_RETURN(ValueId x, ctx.Input(0));
  const auto rank = static_cast<size_t>(ctx.rank(x));
  ASSIGN_OR_RETURN(std::vector<int64_t> pads, ReadPadSizes(ctx, ctx.rank(x)));
  PadAttributes pad;
  ASSIGN_OR_RETURN(const absl::optional<PadMode> mode, ReadPadMode(ctx));
  ASSIGN_OR_RETURN(pad.value, PadNumber(ctx));
  ASSIGN_OR_RETURN(x, CutNegative(ctx, x, pads));
  bool any = false;
  for (int64_t cells : pads) {
    if (cells > kMaxElements) {
      return ctx.Refuse("a pad of ", cells, " is over the limit of ",
                        kMaxElements);
    }
    any |= cells > 0;
  }
  if (!any) return Finish(ctx, x);
  const auto middle = pads.begin() + static_cast<std::ptrdiff_t>(rank);
  pad.before.assign(pads.begin(), middle);
  pad.after.assign(middle, pads.end());
  if (!mode.has_value()) return Finish(ctx, Wrapped(ctx, x, pad));
  pad.mode = *mode;
  return Finish(ctx, ctx.Emit(Op::kPad, {x}, std::move(pad)));
}

// Returns the wanted size of every axis of x.
absl::StatusOr<std::vector<int64_t>> CentredSizes(NodeContext& ctx, ValueId x) {
  const int rank = ctx.rank(x);
  ASSIGN_OR_RETURN(const std::vector<int64_t> wanted,
                   KnownInts(ctx, 1, "the shape"));
  std::vector<int64_t> all;
  for (int i = 0; i < rank; ++i) all.push_back(i);
  ASSIGN_OR_RETURN(const std::vector<int64_t> axes, ctx.Ints("axes", all));
  RETURN_IF_ERROR(NormalAxes(ctx, axes, rank).status());
  if (wanted.size() != axes.size()) {
    return ctx.Refuse("the shape has ", wanted.size(), " sizes for ",
                      axes.size(), " axes");
  }
  std::vector<int64_t> sizes = Dims(ctx.shape(x));
  for (size_t i = 0; i < axes.size(); ++i) {
    ASSIGN_OR_RETURN(const int axis, ctx.Axis(axes[i], rank));
    sizes[static_cast<size_t>(axis)] = wanted[i];
  }
  // Checks that no size is negative and that their product is not too large.
  RETURN_IF_ERROR(MakeShape(ctx, sizes).status());
  return sizes;
}

// Cuts or pads every axis at both ends. Of an odd number of cells, one more is
// cut or added at the end.
absl::Status LowerCenterCropPad(NodeContext& ctx) {
  ASSIGN_OR_RETURN(ValueId x, ctx.Input(0));
  ASSIGN_OR_RETURN(const std::vector<int64_t> sizes, CentredSizes(ctx, x));
  PadAttributes pad;
  pad.before.assign(sizes.size(), 0);
  pad.after = pad.before;
  bool pads = false;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const int axis = static_cast<int>(i);
    const int64_t size = ctx.shape(x)[axis];
    if (sizes[i] < size) {
      const AxisRange middle{axis, (size - sizes[i]) / 2, sizes[i], 1};
      ASSIGN_OR_RETURN(x, SliceAxis(ctx, x, middle));
    } else {
      pad.before[i] = (sizes[i] - size) / 2;
      pad.after[i] = sizes[i] - size - pad.before[i];
      pads |= sizes[i] > size;
    }
  }
  if (!pads) return Finish(ctx, x);
  ASSIGN_OR_RETURN(const Shape shape, MakeShape(ctx, sizes));
  if (ctx.shape(x).elements() == 0) {
    return Finish(ctx, Filled(ctx, ctx.dtype(x), shape, 0));
  }
  return Finish(ctx, ctx.Emit(Op::kPad, {x}, std::move(pad)));
}

absl::Status LowerGather(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const ValueId x, ctx.Input(0));
  ASSIGN_OR_RETURN(const ValueId indices, ctx.Input(1));
  ASSIGN_OR_RETURN(const int64_t at, ctx.Int("axis", 0));
  const Shape shape = ctx.shape(x);
  ASSIGN_OR_RETURN(const int axis, ctx.Axis(at, shape.rank()));
  if (ctx.shape(indices).elements() == 0) {
    std::vector<int64_t> dims = Dims(shape);
    dims.erase(dims.begin() + axis);
    const std::vector<int64_t> chosen = Dims(ctx.shape(indices));
    dims.insert(dims.begin() + axis, chosen.begin(), chosen.end());
    ASSIGN_OR_RETURN(const Shape empty, MakeShape(ctx, dims));
    return Finish(ctx, Filled(ctx, ctx.dtype(x), empty, 0));
  }
  return Finish(ctx, ctx.Emit(Op::kGather, {x, indices}, AxisAttributes{axis}));
}

absl::Status LowerGatherElements(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const ValueId x, ctx.Input(0));
  ASSIGN_OR_RETURN(const ValueId indices, ctx.Input(1));
  ASSIGN_OR_RETURN(const int64_t at, ctx.Int("axis", 0));
  ASSIGN_OR_RETURN(const int axis, ctx.Axis(at, ctx.rank(x)));
  return Finish(
      ctx, ctx.Emit(Op::kGatherElements, {x, indices}, AxisAttributes{axis}));
}

absl::Status LowerGatherNd(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const ValueId x, ctx.Input(0));
  ASSIGN_OR_RETURN(const ValueId indices, ctx.Input(1));
  ASSIGN_OR_RETURN(const int64_t batch, ctx.Int("batch_dims", 0));
  if (batch < 0 || batch >= kMaxRank) {
    return ctx.Refuse("batch_dims ", batch, " must be from 0 to ",
                      kMaxRank - 1);
  }
  return Finish(ctx, ctx.Emit(Op::kGatherNd, {x, indices},
                              GatherNdAttributes{static_cast<int>(batch)}));
}

absl::StatusOr<ScatterReduction> ReadScatterReduction(const NodeContext& ctx) {
  ASSIGN_OR_RETURN(
      const int reduction,
      Choice(ctx, "reduction", {"none", "add", "mul", "min", "max"}));
  return static_cast<ScatterReduction>(reduction);
}

absl::Status LowerScatter(NodeContext& ctx, Op op) {
  ASSIGN_OR_RETURN(const ValueId x, ctx.Input(0));
  ASSIGN_OR_RETURN(const ValueId indices, ctx.Input(1));
  ASSIGN_OR_RETURN(const ValueId updates, ctx.Input(2));
  ScatterAttributes scatter;
  ASSIGN_OR_RETURN(scatter.reduction, ReadScatterReduction(ctx));
  if (op == Op::kScatterElements) {
    ASSIGN_OR_RETURN(const int64_t at, ctx.Int("axis", 0));
    ASSIGN_OR_RETURN(scatter.axis, ctx.Axis(at, ctx.rank(x)));
  }
  if (ctx.shape(indices).elements() == 0) return Finish(ctx, x);
  return Finish(ctx, ctx.Emit(op, {x, indices, updates}, scatter));
}

absl::Status LowerScatterElements(NodeContext& ctx) {
  return LowerScatter(ctx, Op::kScatterElements);
}

absl::Status LowerScatterNd(NodeContext& ctx) {
  return LowerScatter(ctx, Op::kScatterNd);
}

// Returns the place in the cache of every row of an update, [N, 1, ..., T, ...,
// 1].
absl::StatusOr<ValueId> WrittenRows(NodeContext& ctx, ValueId cache,
                                    ValueId update, int axis) {
  ASSIGN_OR_RETURN(const int mode, Choice(ctx, "mode", {"linear", "circular"}));
  std::vector<int64_t> dims(static_cast<size_t>(ctx.rank(cache)), 1);
  dims[static_cast<size_t>(axis)] = ctx.shape(update)[axis];
  ASSIGN_OR_RETURN(const ValueId steps,
                   Positions(ctx, ctx.shape(update)[axis]));
  ASSIGN_OR_RETURN(ValueId rows, ctx.Reshape(steps, dims));
  if (ctx.has_input(2)) {
    ASSIGN_OR_RETURN(const ValueId given, ctx.Input(2));
    const int64_t batch = ctx.shape(cache)[0];
    if (ctx.rank(given) != 1 || ctx.shape(given)[0] != batch) {
      return ctx.Refuse("write_indices must have one number for each of the ",
                        batch, " sequences, but are ",
                        ctx.shape(given).ToString());
    }
    dims[static_cast<size_t>(axis)] = 1;
    dims[0] = batch;
    ASSIGN_OR_RETURN(const ValueId typed, ctx.Cast(given, DType::kInt64));
    ASSIGN_OR_RETURN(const ValueId first, ctx.Reshape(typed, dims));
    ASSIGN_OR_RETURN(rows, ctx.Binary(BinaryFunction::kAdd, first, rows));
  }
  if (mode == 0) return rows;
  return ctx.Binary(BinaryFunction::kModulo, rows,
                    static_cast<double>(ctx.shape(cache)[axis]));
}

absl::Status LowerTensorScatter(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const ValueId cache, ctx.Input(0));
  ASSIGN_OR_RETURN(const ValueId update, ctx.Input(1));
  ASSIGN_OR_RETURN(const int64_t at, ctx.Int("axis", -2));
  ASSIGN_OR_RETURN(const int axis, ctx.Axis(at, ctx.rank(cache)));
  if (axis == 0) return ctx.Refuse("axis 0 is the batch and cannot be written");
  std::vector<int64_t> fits = Dims(ctx.shape(cache));
  if (ctx.rank(update) == ctx.rank(cache)) {
    auto& rows = fits[static_cast<size_t>(axis)];
    rows = std::min(rows, ctx.shape(update)[axis]);
  }
  if (Dims(ctx.shape(update)) != fits) {
    return ctx.Refuse("the update ", ctx.shape(update).ToString(),
                      " does not fit the cache ", ctx.shape(cache).ToString());
  }
  if (ctx.shape(update).elements() == 0) return Finish(ctx, cache);
  ASSIGN_OR_RETURN(const ValueId rows, WrittenRows(ctx, cache, update, axis));
  ASSIGN_OR_RETURN(const ValueId indices,
                   ctx.BroadcastTo(rows, ctx.shape(update)));
  ScatterAttributes scatter;
  scatter.axis = axis;
  return Finish(
      ctx, ctx.Emit(Op::kScatterElements, {cache, indices, update}, scatter));
}

}  // namespace

absl::Span<const OperatorEntry> IndexOperators() {
  static constexpr absl::string_view kFamily = "indexing";
  static const OperatorEntry rows[] = {
      {"", "CenterCropPad", kFamily, kNumbers, LowerCenterCropPad},
      {"", "Concat", kFamily, kShapes, LowerConcat},
      {"", "Gather", kFamily, kShapes, LowerGather},
      {"", "GatherElements", kFamily, kShapes, LowerGatherElements},
      {"", "GatherND", kFamily, kShapes, LowerGatherNd},
      {"", "Pad", kFamily, kNumbers, LowerPad},
      {"", "Scatter", kFamily, kShapes, LowerScatterElements},
      {"", "ScatterElements", kFamily, kShapes, LowerScatterElements},
      {"", "ScatterND", kFamily, kShapes, LowerScatterNd},
      {"", "Slice", kFamily, kNumbers, LowerSlice},
      {"", "Split", kFamily, kNumbers, LowerSplit},
      {"", "TensorScatter", kFamily, kShapes, LowerTensorScatter},
  };
  return rows;
}

}  // namespace gpupool::engine::onnx_import
