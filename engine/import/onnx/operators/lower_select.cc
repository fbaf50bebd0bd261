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
#include "engine/import/onnx/graph/stages.h"

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

// Sets the outputs of a TopK that takes no cells.
absl::Status TakeNone(NodeContext& ctx, ValueId x, int axis) {
  std::vector<int64_t> dims = Dims(ctx.shape(x));
  dims[static_cast<size_t>(axis)] = 0;
  ASSIGN_OR_RETURN(const Shape shape, MakeShape(ctx, dims));
  ctx.Set(0, ctx.Constant({ctx.dtype(x), shape, {}}));
  ctx.Set(1, ctx.Constant({DType::kInt64, shape, {}}));
  return absl::OkStatus();
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
  if (top.k < 0 || top.k > size) {
    return ctx.Refuse("k ", top.k, " must be from 0 to the ", size,
                      " cells of axis ", top.axis);
  }
  if (top.k == 0) return TakeNone(ctx, x, top.axis);
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

// Returns the positions of all numbers that are not 0, by axis.
absl::StatusOr<HostCall::Results> NonZeros(const HostTensor& x) {
  const int rank = x.shape.rank();
  std::vector<size_t> found;
  for (size_t i = 0; i < x.numbers.size(); ++i) {
    if (x.numbers[i] != 0) found.push_back(i);
  }
  const auto rows = static_cast<int64_t>(found.size());
  HostTensor positions{DType::kInt64, {}, {}};
  ASSIGN_OR_RETURN(positions.shape, Shape::CreateMaybeEmpty({rank, rows}));
  for (int axis = 0; axis < rank; ++axis) {
    const auto stride = static_cast<size_t>(Product(x.shape, axis + 1, rank));
    const auto size = static_cast<size_t>(x.shape[axis]);
    for (size_t i : found) {
      positions.numbers.push_back(static_cast<double>(i / stride % size));
    }
  }
  return HostCall::Results{rows, {std::move(positions)}};
}

// The host finds the positions, as they determine the output's shape.
absl::Status LowerNonZero(NodeContext& ctx) {
  constexpr HostOperand kTensor{0, "the tensor"};
  ASSIGN_OR_RETURN(const Shape shape, OperandShape(ctx, kTensor));
  const int64_t rank = shape.rank();
  if (ctx.IsKnown(0)) RETURN_IF_ERROR(Charge(ctx, shape, 1 + rank));
  HostCall call{.most_rows = shape.elements()};
  RETURN_IF_ERROR(MakeShape(ctx, {rank, call.most_rows}).status());
  call.types = [rank](int64_t rows) {
    return std::vector<TensorType>{{DType::kInt64, SmallerShape({rank, rows})}};
  };
  call.run = [](const std::vector<HostTensor>& operands) {
    return NonZeros(operands[0]);
  };
  ASSIGN_OR_RETURN(const ValueIds found, ComputeOnHost(ctx, {kTensor}, call));
  ctx.Set(0, found[0]);
  return absl::OkStatus();
}

// Returns the number of cells among which Compress chooses.
absl::StatusOr<int64_t> CellsToChoose(NodeContext& ctx, ValueId x, int* axis) {
  *axis = -1;
  if (!ctx.has_attribute("axis")) return ctx.shape(x).elements();
  ASSIGN_OR_RETURN(const int64_t at, ctx.Int("axis", 0));
  ASSIGN_OR_RETURN(*axis, ctx.Axis(at, ctx.rank(x)));
  return ctx.shape(x)[*axis];
}

absl::Status LowerCompress(NodeContext& ctx) {
  ASSIGN_OR_RETURN(ValueId x, ctx.Input(0));
  int axis = 0;
  ASSIGN_OR_RETURN(const int64_t cells, CellsToChoose(ctx, x, &axis));
  constexpr HostOperand kCondition{1, "the condition"};
  ASSIGN_OR_RETURN(const Shape condition, OperandShape(ctx, kCondition));
  // A condition may be shorter than the axis. The remaining cells are not
  // chosen.
  HostCall call{.most_rows = std::min(cells, condition.elements()),
                .needed = {x}};
  call.types = [](int64_t rows) {
    return std::vector<TensorType>{{DType::kInt64, SmallerShape({rows})}};
  };
  call.run = [cells](const std::vector<HostTensor>& operands)
      -> absl::StatusOr<HostCall::Results> {
    const std::vector<double>& numbers = operands[0].numbers;
    const size_t size = std::min(static_cast<size_t>(cells), numbers.size());
    HostTensor chosen{DType::kInt64, {}, {}};
    for (size_t i = 0; i < size; ++i) {
      if (numbers[i] != 0) chosen.numbers.push_back(static_cast<double>(i));
    }
    const auto rows = static_cast<int64_t>(chosen.numbers.size());
    chosen.shape = SmallerShape({rows});
    return HostCall::Results{rows, {std::move(chosen)}};
  };
  ASSIGN_OR_RETURN(const ValueIds found,
                   ComputeOnHost(ctx, {kCondition}, call));
  if (axis < 0) {
    ASSIGN_OR_RETURN(x, ctx.Reshape(x, {cells}));
    axis = 0;
  }
  if (ctx.shape(found[0]).elements() == 0) {
    return Finish(ctx, SliceAxis(ctx, x, {.axis = axis, .size = 0}));
  }
  return Finish(ctx,
                ctx.Emit(Op::kGather, {x, found[0]}, AxisAttributes{axis}));
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

// Returns the positions of the first of equal slices, the class of each slice,
// and the size of each class.
absl::StatusOr<HostCall::Results> Classify(const HostTensor& x, int axis,
                                           bool sorted) {
  // Beyond this, several integers are one double.
  constexpr double kExact = 9007199254740992;
  for (double number : x.numbers) {
    // The map needs an order, which NaN does not have.
    if (std::isnan(number)) {
      return absl::InvalidArgumentError("the tensor has a NaN");
    }
    if (!IsFloating(x.dtype) && std::abs(number) >= kExact) {
      return absl::InvalidArgumentError(
          "the tensor has an integer beyond 2^53, which is not supported");
    }
  }
  Classes classes = GroupEqual(SlicesOf(x, axis), sorted);
  HostCall::Results results;
  results.rows = static_cast<int64_t>(classes.first.size());
  for (auto* list : {&classes.first, &classes.inverse, &classes.counts}) {
    const auto size = static_cast<int64_t>(list->size());
    results.tensors.push_back(
        {DType::kInt64, SmallerShape({size}), std::move(*list)});
  }
  return results;
}

absl::Status LowerUnique(NodeContext& ctx) {
  constexpr HostOperand kTensor{0, "the tensor"};
  ASSIGN_OR_RETURN(Shape shape, OperandShape(ctx, kTensor));
  if (ctx.IsKnown(0)) RETURN_IF_ERROR(Charge(ctx, shape, kGroupingWork));
  ASSIGN_OR_RETURN(ValueId value, ctx.Input(0));
  ASSIGN_OR_RETURN(const int64_t sorted, ctx.Int("sorted", 1));
  const bool flat = !ctx.has_attribute("axis");
  int axis = 0;
  if (flat) {
    ASSIGN_OR_RETURN(shape, MakeShape(ctx, {shape.elements()}));
  } else {
    ASSIGN_OR_RETURN(const int64_t at, ctx.Int("axis", 0));
    ASSIGN_OR_RETURN(axis, ctx.Axis(at, shape.rank()));
  }
  const int64_t slices = shape[axis];
  HostCall call{.most_rows = slices, .needed = {value}};
  call.types = [slices](int64_t rows) {
    std::vector<TensorType> types;
    for (int64_t size : {rows, slices, rows}) {
      types.push_back({DType::kInt64, SmallerShape({size})});
    }
    return types;
  };
  call.run = [=](const std::vector<HostTensor>& operands) {
    return Classify({operands[0].dtype, shape, operands[0].numbers}, axis,
                    sorted != 0);
  };
  ASSIGN_OR_RETURN(const ValueIds found, ComputeOnHost(ctx, {kTensor}, call));
  if (flat) {
    ASSIGN_OR_RETURN(value, ctx.Reshape(value, {slices}));
  }
  ASSIGN_OR_RETURN(const ValueId y, ctx.Emit(Op::kGather, {value, found[0]},
                                             AxisAttributes{axis}));
  ctx.Set(0, y);
  for (int i = 0; i < 3; ++i) ctx.Set(i + 1, found[static_cast<size_t>(i)]);
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
