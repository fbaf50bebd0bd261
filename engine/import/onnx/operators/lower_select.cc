// Lowers the operators that select or reorder elements, such as TopK, NonZero,
// Compress and Unique.
#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "engine/base/status_macros.h"
#include "engine/import/onnx/graph/graph_importer.h"
#include "engine/import/onnx/graph/lowering_parts.h"
#include "engine/import/onnx/graph/lowerings.h"

namespace gpupool::engine::onnx_import {
namespace {

using Binary = BinaryFunction;

// Inserting a number into a map costs about as much as this many element
// operations.
constexpr int64_t kGroupingWork = 32;

// Charges the import's budget `work` for each element.
absl::Status Charge(NodeContext& ctx, const Shape& shape, int64_t work) {
  const absl::Status spent =
      ctx.importer().values().Spend(shape.elements() * work);
  return spent.ok() ? spent : ctx.Refuse(spent.message());
}

absl::StatusOr<ValueId> IntegerList(NodeContext& ctx,
                                    std::vector<double> numbers) {
  const int64_t dims[] = {static_cast<int64_t>(numbers.size())};
  ASSIGN_OR_RETURN(const Shape shape, MakeShape(ctx, dims));
  return ctx.Constant({DType::kInt64, shape, std::move(numbers)});
}

absl::Status LowerTopK(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const ValueId x, ctx.Input(0));
  ASSIGN_OR_RETURN(const int64_t at, ctx.Int("axis", -1));
  ASSIGN_OR_RETURN(const int64_t largest, ctx.Int("largest", 1));
  ASSIGN_OR_RETURN(const int64_t sorted, ctx.Int("sorted", 1));
  TopKAttributes top;
  ASSIGN_OR_RETURN(top.axis, ctx.Axis(at, ctx.rank(x)));
  if (ctx.opset() < 10) {
    ASSIGN_OR_RETURN(top.k, ctx.Int("k", 0));
  } else {
    ASSIGN_OR_RETURN(top.k, KnownInt(ctx, 1, "k"));
  }
  const int64_t size = ctx.shape(x)[top.axis];
  if (top.k < 1 || top.k > size) {
    return ctx.Refuse("k ", top.k, " must be from 1 to the ", size,
                      " cells of axis ", top.axis);
  }
  top.largest = largest != 0;
  top.sorted = sorted != 0;
  ASSIGN_OR_RETURN(const ValueIds outputs, ctx.EmitAll(Op::kTopK, {x}, top));
  ctx.Set(0, outputs[0]);
  ctx.Set(1, outputs[1]);
  return absl::OkStatus();
}

absl::Status LowerOneHot(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const ValueId given, ctx.Input(0));
  ASSIGN_OR_RETURN(const int64_t depth, KnownInt(ctx, 1, "the depth"));
  ASSIGN_OR_RETURN(const ValueId values, ctx.Input(2));
  if (depth < 1) return ctx.Refuse("depth ", depth, " must be at least 1");
  if (ctx.shape(values).rank() != 1 || ctx.shape(values)[0] != 2) {
    return ctx.Refuse("values must be [off, on], not ",
                      ctx.shape(values).ToString());
  }
  ASSIGN_OR_RETURN(const int64_t at, ctx.Int("axis", -1));
  const int rank = ctx.rank(given) + 1;
  ASSIGN_OR_RETURN(const int axis, ctx.Axis(at, rank));
  ASSIGN_OR_RETURN(const ValueId indices, ctx.Cast(given, DType::kInt64));
  // Negative indices count from the end. Other indices outside of the depth
  // match no column.
  ASSIGN_OR_RETURN(
      const ValueId from_end,
      ctx.Binary(Binary::kAdd, indices, static_cast<double>(depth)));
  ASSIGN_OR_RETURN(const ValueId negative,
                   ctx.Binary(Binary::kLess, indices, 0.0));
  ASSIGN_OR_RETURN(const ValueId wrapped,
                   ctx.Emit(Op::kWhere, {negative, from_end, indices}));
  std::vector<int64_t> dims = Dims(ctx.shape(given));
  dims.insert(dims.begin() + axis, 1);
  ASSIGN_OR_RETURN(const ValueId column, ctx.Reshape(wrapped, dims));
  std::vector<int64_t> along(static_cast<size_t>(rank), 1);
  along[static_cast<size_t>(axis)] = depth;
  ASSIGN_OR_RETURN(const ValueId numbers, Positions(ctx, depth));
  ASSIGN_OR_RETURN(const ValueId classes, ctx.Reshape(numbers, along));
  ASSIGN_OR_RETURN(const ValueId hit,
                   ctx.Binary(Binary::kEqual, column, classes));
  ASSIGN_OR_RETURN(const ValueId off, TakeRow(ctx, values, 0, 0));
  ASSIGN_OR_RETURN(const ValueId on, TakeRow(ctx, values, 0, 1));
  return Finish(ctx, ctx.Emit(Op::kWhere, {hit, on, off}));
}

// Finds the positions during the import, as they determine the output's shape.
absl::Status LowerNonZero(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const HostTensor x, ctx.Known(0, "the tensor"));
  const int rank = x.shape.rank();
  RETURN_IF_ERROR(Charge(ctx, x.shape, 1 + rank));
  std::vector<size_t> found;
  for (size_t i = 0; i < x.numbers.size(); ++i) {
    if (x.numbers[i] != 0) found.push_back(i);
  }
  const int64_t dims[] = {rank, static_cast<int64_t>(found.size())};
  HostTensor positions{DType::kInt64, {}, {}};
  ASSIGN_OR_RETURN(positions.shape, MakeShape(ctx, dims));
  for (int axis = 0; axis < rank; ++axis) {
    const auto stride = static_cast<size_t>(Product(x.shape, axis + 1, rank));
    const auto size = static_cast<size_t>(x.shape[axis]);
    for (size_t i : found) {
      positions.numbers.push_back(static_cast<double>(i / stride % size));
    }
  }
  ctx.Set(0, ctx.Constant(std::move(positions)));
  return absl::OkStatus();
}

absl::Status LowerCompress(NodeContext& ctx) {
  ASSIGN_OR_RETURN(ValueId x, ctx.Input(0));
  ASSIGN_OR_RETURN(const HostTensor condition, ctx.Known(1, "the condition"));
  int axis = 0;
  if (ctx.has_attribute("axis")) {
    ASSIGN_OR_RETURN(const int64_t at, ctx.Int("axis", 0));
    ASSIGN_OR_RETURN(axis, ctx.Axis(at, ctx.rank(x)));
  } else {
    const int64_t flat[] = {ctx.shape(x).elements()};
    ASSIGN_OR_RETURN(x, ctx.Reshape(x, flat));
  }
  const auto size = static_cast<size_t>(ctx.shape(x)[axis]);
  std::vector<double> chosen;
  // A condition may be shorter than the axis. The remaining cells are not
  // chosen.
  for (size_t i = 0; i < std::min(size, condition.numbers.size()); ++i) {
    if (condition.numbers[i] != 0) chosen.push_back(static_cast<double>(i));
  }
  if (chosen.empty()) {
    return Finish(ctx, SliceAxis(ctx, x, {.axis = axis, .size = 0}));
  }
  ASSIGN_OR_RETURN(const ValueId indices, IntegerList(ctx, std::move(chosen)));
  return Finish(ctx, ctx.Emit(Op::kGather, {x, indices}, AxisAttributes{axis}));
}

// Returns the slices of a tensor along one axis, each as a list of numbers.
std::vector<std::vector<double>> SlicesOf(const HostTensor& x, int axis) {
  const auto count = static_cast<size_t>(x.shape[axis]);
  const auto inner =
      static_cast<size_t>(Product(x.shape, axis + 1, x.shape.rank()));
  const auto outer = static_cast<size_t>(Product(x.shape, 0, axis));
  std::vector<std::vector<double>> slices(count);
  for (size_t o = 0; o < outer; ++o) {
    for (size_t i = 0; i < count; ++i) {
      const auto from = x.numbers.begin() +
                        static_cast<std::ptrdiff_t>((o * count + i) * inner);
      slices[i].insert(slices[i].end(), from,
                       from + static_cast<std::ptrdiff_t>(inner));
    }
  }
  return slices;
}

struct Classes {
  std::vector<double> first;    // position of each class's first slice
  std::vector<double> inverse;  // class of each slice
  std::vector<double> counts;
};

// Groups equal slices. Classes are in rising order if `sorted`, else in the
// order of their first slices.
Classes GroupEqual(const std::vector<std::vector<double>>& slices,
                   bool sorted) {
  std::map<std::vector<double>, size_t> known;
  Classes classes;
  for (size_t i = 0; i < slices.size(); ++i) {
    const auto [entry, added] = known.emplace(slices[i], classes.first.size());
    if (added) {
      classes.first.push_back(static_cast<double>(i));
      classes.counts.push_back(0);
    }
    classes.inverse.push_back(static_cast<double>(entry->second));
    ++classes.counts[entry->second];
  }
  if (!sorted) return classes;
  std::vector<double> place(known.size());
  Classes ordered;
  // The map iterates over the slices in rising order.
  for (const auto& [numbers, seen] : known) {
    place[seen] = static_cast<double>(ordered.first.size());
    ordered.first.push_back(classes.first[seen]);
    ordered.counts.push_back(classes.counts[seen]);
  }
  for (double seen : classes.inverse) {
    ordered.inverse.push_back(place[static_cast<size_t>(seen)]);
  }
  return ordered;
}

absl::Status LowerUnique(NodeContext& ctx) {
  ASSIGN_OR_RETURN(HostTensor x, ctx.Known(0, "the tensor"));
  RETURN_IF_ERROR(Charge(ctx, x.shape, kGroupingWork));
  ASSIGN_OR_RETURN(ValueId value, ctx.Input(0));
  ASSIGN_OR_RETURN(const int64_t sorted, ctx.Int("sorted", 1));
  // The map needs an order, which NaN does not have.
  for (double number : x.numbers) {
    if (std::isnan(number)) return ctx.Refuse("the tensor has a NaN");
  }
  int axis = 0;
  if (ctx.has_attribute("axis")) {
    ASSIGN_OR_RETURN(const int64_t at, ctx.Int("axis", 0));
    ASSIGN_OR_RETURN(axis, ctx.Axis(at, x.shape.rank()));
  } else {
    const int64_t flat[] = {x.shape.elements()};
    ASSIGN_OR_RETURN(x.shape, MakeShape(ctx, flat));
    ASSIGN_OR_RETURN(value, ctx.Reshape(value, flat));
  }
  Classes classes = GroupEqual(SlicesOf(x, axis), sorted != 0);
  ASSIGN_OR_RETURN(const ValueId first, IntegerList(ctx, classes.first));
  ASSIGN_OR_RETURN(const ValueId y,
                   ctx.Emit(Op::kGather, {value, first}, AxisAttributes{axis}));
  ctx.Set(0, y);
  ctx.Set(1, first);
  ASSIGN_OR_RETURN(const ValueId inverse,
                   IntegerList(ctx, std::move(classes.inverse)));
  ctx.Set(2, inverse);
  ASSIGN_OR_RETURN(const ValueId counts,
                   IntegerList(ctx, std::move(classes.counts)));
  ctx.Set(3, counts);
  return absl::OkStatus();
}

// Reverses the first lengths[b] steps of each sequence b.
//
// With x as rows [batch * time, rest], step t of sequence b copies row
// b * time + s. Here s is length - 1 - t if t < length, else t.
absl::Status LowerReverseSequence(NodeContext& ctx) {
  ASSIGN_OR_RETURN(ValueId x, ctx.Input(0));
  ASSIGN_OR_RETURN(const ValueId given, ctx.Input(1));
  RETURN_IF_ERROR(RequireRank(ctx, x, 2));
  ASSIGN_OR_RETURN(const int64_t batch_axis, ctx.Int("batch_axis", 1));
  ASSIGN_OR_RETURN(const int64_t time_axis, ctx.Int("time_axis", 0));
  if ((batch_axis != 0 || time_axis != 1) &&
      (batch_axis != 1 || time_axis != 0)) {
    return ctx.Refuse("batch_axis ", batch_axis, " and time_axis ", time_axis,
                      " must be 0 and 1 in some order");
  }
  std::vector<int> swap = AllAxes(ctx.rank(x));
  std::swap(swap[0], swap[1]);
  if (batch_axis == 1) {
    ASSIGN_OR_RETURN(x, ctx.Transpose(x, swap));
  }
  const Shape shape = ctx.shape(x);
  const int64_t batch = shape[0];
  const int64_t time = shape[1];
  ASSIGN_OR_RETURN(const ValueId lengths, ctx.Cast(given, DType::kInt64));
  const int64_t per_sequence[] = {batch, 1};
  ASSIGN_OR_RETURN(const ValueId length, ctx.Reshape(lengths, per_sequence));
  ASSIGN_OR_RETURN(const ValueId steps, Positions(ctx, time));
  ASSIGN_OR_RETURN(const ValueId last,
                   ctx.Binary(Binary::kSubtract, length, 1.0));
  ASSIGN_OR_RETURN(const ValueId reversed,
                   ctx.Binary(Binary::kSubtract, last, steps));
  ASSIGN_OR_RETURN(const ValueId inside,
                   ctx.Binary(Binary::kLess, steps, length));
  ASSIGN_OR_RETURN(const ValueId step,
                   ctx.Emit(Op::kWhere, {inside, reversed, steps}));
  ASSIGN_OR_RETURN(const ValueId sequences, Positions(ctx, batch));
  ASSIGN_OR_RETURN(const ValueId sequence,
                   ctx.Reshape(sequences, per_sequence));
  ASSIGN_OR_RETURN(const ValueId base, ctx.Binary(Binary::kMultiply, sequence,
                                                  static_cast<double>(time)));
  ASSIGN_OR_RETURN(const ValueId rows, ctx.Binary(Binary::kAdd, base, step));
  std::vector<int64_t> dims = Dims(shape);
  dims.erase(dims.begin());
  dims[0] = batch * time;
  ASSIGN_OR_RETURN(const ValueId flat, ctx.Reshape(x, dims));
  ASSIGN_OR_RETURN(ValueId y,
                   ctx.Emit(Op::kGather, {flat, rows}, AxisAttributes{0}));
  if (batch_axis == 1) {
    ASSIGN_OR_RETURN(y, ctx.Transpose(y, swap));
  }
  return Finish(ctx, y);
}

}  // namespace

absl::Span<const OperatorEntry> SelectOperators() {
  static constexpr absl::string_view kFamily = "selection";
  static const OperatorEntry rows[] = {
      {"", "Compress", kFamily, kNumbers, LowerCompress},
      {"", "NonZero", kFamily, kNumbers, LowerNonZero},
      {"", "OneHot", kFamily, kNumbers, LowerOneHot},
      {"", "ReverseSequence", kFamily, kShapes, LowerReverseSequence},
      {"", "TopK", kFamily, kNumbers, LowerTopK},
      {"", "Unique", kFamily, kNumbers, LowerUnique},
  };
  return rows;
}

}  // namespace gpupool::engine::onnx_import
