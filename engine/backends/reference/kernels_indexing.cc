// Gathers and scatters.
#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "engine/backends/reference/kernels.h"
#include "engine/backends/reference/walk.h"
#include "engine/base/status_macros.h"

namespace gpupool::engine::reference {
namespace {

// Returns an index into an axis of `cells` cells, counted from 0. Negative
// indices count from the end. INVALID_ARGUMENT when it lies outside.
absl::StatusOr<int64_t> Resolve(const Node& node, double index, int64_t cells) {
  const auto limit = static_cast<double>(cells);
  if (index >= -limit && index < limit) {
    return static_cast<int64_t>(index < 0 ? index + limit : index);
  }
  return absl::InvalidArgumentError(
      absl::StrCat(OpName(node.op), " of '", node.source, "': index ", index,
                   " lies outside -", cells, " .. ", cells - 1));
}

double Combine(ScatterReduction reduction, double old, double update) {
  switch (reduction) {
    case ScatterReduction::kNone:
      return update;
    case ScatterReduction::kAdd:
      return old + update;
    case ScatterReduction::kMultiply:
      return old * update;
    case ScatterReduction::kMinimum:
    case ScatterReduction::kMaximum:
      break;
  }
  // Comparisons with NaN are false, so std::min and std::max would lose it.
  if (std::isnan(old) || std::isnan(update)) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  return reduction == ScatterReduction::kMinimum ? std::min(old, update)
                                                 : std::max(old, update);
}

// Returns the source of the element of gather's output at `at`. The coordinates
// of the indices take the place of the axis.
absl::StatusOr<Position> GatherSource(const Operands& o, int axis,
                                      const Shape& x, const Walk& at) {
  const Shape& indices = o.in_shape(1);
  Position in_indices{};
  for (int i = 0; i < indices.rank(); ++i) {
    in_indices[static_cast<size_t>(i)] = at[axis + i];
  }
  Position source{};
  for (int i = 0; i < x.rank(); ++i) {
    source[static_cast<size_t>(i)] =
        i < axis ? at[i] : at[std::max(0, i - 1 + indices.rank())];
  }
  ASSIGN_OR_RETURN(
      source[static_cast<size_t>(axis)],
      Resolve(o.node, o.in(1)[IndexOf(indices, in_indices)], x[axis]));
  return source;
}

// Returns the target of the tuple of indices for the element at `at`. The
// element's further coordinates follow the tuple's.
absl::StatusOr<Position> TupleTarget(const Operands& o, int batch_dims,
                                     const Walk& at) {
  const Shape& x = o.in_shape(0);
  const Shape& indices = o.in_shape(1);
  const int outer = indices.rank() - 1;
  const auto length = static_cast<int>(indices[outer]);
  Position tuple{};
  for (int i = 0; i < outer; ++i) tuple[static_cast<size_t>(i)] = at[i];
  Position target{};
  for (int i = 0; i < x.rank(); ++i) {
    int64_t& coordinate = target[static_cast<size_t>(i)];
    const int entry = i - batch_dims;
    if (entry < 0) {
      coordinate = at[i];
    } else if (entry < length) {
      tuple[static_cast<size_t>(outer)] = entry;
      ASSIGN_OR_RETURN(coordinate,
                       Resolve(o.node, o.in(1)[IndexOf(indices, tuple)], x[i]));
    } else {
      coordinate = at[outer + entry - length];
    }
  }
  return target;
}

// Returns the next slot of a walk over the numbers of a row.
absl::StatusOr<double> NextSlot(const Operands& o, absl::Span<const double> row,
                                double slot) {
  const auto slots = o.in_shape(1)[0];
  ASSIGN_OR_RETURN(const int64_t at, Resolve(o.node, slot, slots));
  const auto place = static_cast<size_t>(at);
  const double column = o.in(1)[place];
  const bool missing_smaller = column < 0;
  ASSIGN_OR_RETURN(const int64_t cell,
                   Resolve(o.node, missing_smaller ? -1 - column : column,
                           static_cast<int64_t>(row.size())));
  const double number = row[static_cast<size_t>(cell)];
  const bool smaller =
      std::isnan(number) ? missing_smaller : number <= o.in(2)[place];
  return o.in(smaller ? 4 : 3)[place];
}

}  // namespace

absl::Status TreeWalk(const Operands& o) {
  const int64_t levels = o.node.get<TreeWalkAttributes>().levels;
  const auto cells = static_cast<size_t>(o.in_shape(0)[1]);
  const auto trees = static_cast<size_t>(o.out_shape()[1]);
  for (size_t i = 0; i < o.out().size(); ++i) {
    const auto row = o.in(0).subspan(i / trees * cells, cells);
    double slot = o.in(5)[i % trees];
    for (int64_t level = 0; level < levels; ++level) {
      ASSIGN_OR_RETURN(slot, NextSlot(o, row, slot));
    }
    o.out()[i] = slot;
  }
  return absl::OkStatus();
}

absl::Status Gather(const Operands& o) {
  const int axis = o.node.get<AxisAttributes>().axis;
  const Shape& x = o.in_shape(0);
  for (Walk walk(o.out_shape()); !walk.done(); walk.Next()) {
    ASSIGN_OR_RETURN(const Position source, GatherSource(o, axis, x, walk));
    o.out()[walk.index()] = o.in(0)[IndexOf(x, source)];
  }
  return absl::OkStatus();
}

absl::Status GatherGrad(const Operands& o) {
  const auto& grad = o.node.get<GatherGradAttributes>();
  for (Walk walk(o.in_shape(0)); !walk.done(); walk.Next()) {
    ASSIGN_OR_RETURN(const Position source,
                     GatherSource(o, grad.axis, grad.input, walk));
    o.out()[IndexOf(grad.input, source)] += o.in(0)[walk.index()];
  }
  return absl::OkStatus();
}

absl::Status GatherElements(const Operands& o) {
  const int axis = o.node.get<AxisAttributes>().axis;
  const Shape& x = o.in_shape(0);
  for (Walk walk(o.out_shape()); !walk.done(); walk.Next()) {
    Position source = walk.position();
    ASSIGN_OR_RETURN(source[static_cast<size_t>(axis)],
                     Resolve(o.node, o.in(1)[walk.index()], x[axis]));
    o.out()[walk.index()] = o.in(0)[IndexOf(x, source)];
  }
  return absl::OkStatus();
}

absl::Status GatherNd(const Operands& o) {
  const int batch_dims = o.node.get<GatherNdAttributes>().batch_dims;
  for (Walk walk(o.out_shape()); !walk.done(); walk.Next()) {
    ASSIGN_OR_RETURN(const Position source, TupleTarget(o, batch_dims, walk));
    o.out()[walk.index()] = o.in(0)[IndexOf(o.in_shape(0), source)];
  }
  return absl::OkStatus();
}

absl::Status ScatterElements(const Operands& o) {
  const auto& scatter = o.node.get<ScatterAttributes>();
  const Shape& x = o.in_shape(0);
  std::copy(o.in(0).begin(), o.in(0).end(), o.out().begin());
  // Walks the updates in row-major order, so the last of equal indices wins.
  for (Walk walk(o.in_shape(2)); !walk.done(); walk.Next()) {
    Position target = walk.position();
    ASSIGN_OR_RETURN(target[static_cast<size_t>(scatter.axis)],
                     Resolve(o.node, o.in(1)[walk.index()], x[scatter.axis]));
    double& y = o.out()[IndexOf(x, target)];
    y = Combine(scatter.reduction, y, o.in(2)[walk.index()]);
  }
  return absl::OkStatus();
}

absl::Status ScatterNd(const Operands& o) {
  const auto& scatter = o.node.get<ScatterAttributes>();
  std::copy(o.in(0).begin(), o.in(0).end(), o.out().begin());
  for (Walk walk(o.in_shape(2)); !walk.done(); walk.Next()) {
    ASSIGN_OR_RETURN(const Position target, TupleTarget(o, 0, walk));
    double& y = o.out()[IndexOf(o.in_shape(0), target)];
    y = Combine(scatter.reduction, y, o.in(2)[walk.index()]);
  }
  return absl::OkStatus();
}

}  // namespace gpupool::engine::reference
