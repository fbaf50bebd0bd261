// Rules of movement: attributes alone tell which element goes where.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "engine/base/status_macros.h"
#include "engine/graph/axis_checks.h"
#include "engine/graph/type_rules.h"

namespace gpupool::engine::type_rules {
namespace {

// The limit of a random value: a Philox block gives four elements, and 32 bits
// of its number count blocks within a step.
constexpr int64_t kMaxRandomElements = int64_t{1} << 34;
// The largest magnitude up to which a double holds every integer exactly.
constexpr double kMaxExactInteger = 0x1p53;

using Dims = std::vector<int64_t>;

Dims DimsOf(const Shape& shape) {
  return {shape.dims().begin(), shape.dims().end()};
}

absl::Status CheckEntries(Op op, absl::string_view what, size_t entries,
                          const Shape& x) {
  if (entries == static_cast<size_t>(x.rank())) return absl::OkStatus();
  return Refuse(op, what, " has ", entries, " entries but the input ",
                x.ToString(), " has ", x.rank(), " dimensions");
}

// Checks that the `size` cells start, start + step, ... of an axis are inside.
absl::Status CheckSliceAxis(Op op, const SliceAttributes& slice, int axis,
                            int64_t cells) {
  const auto i = static_cast<size_t>(axis);
  const int64_t start = slice.starts[i];
  const int64_t step = slice.steps[i];
  const int64_t size = slice.sizes[i];
  if (step == 0) return Refuse(op, "the step of axis ", axis, " is 0");
  if (size < 0) {
    return Refuse(op, "the size ", size, " of axis ", axis,
                  " must be at least 0");
  }
  // An empty slice touches no cell, wherever it begins.
  if (size == 0) return absl::OkStatus();
  bool inside = start >= 0 && start < cells;
  if (inside) {
    // Unsigned, because the smallest int64 has no positive counterpart.
    const auto room =
        static_cast<uint64_t>(step > 0 ? cells - 1 - start : start);
    const uint64_t stride = step > 0
                                ? static_cast<uint64_t>(step)
                                : uint64_t{0} - static_cast<uint64_t>(step);
    // The division avoids the product of size and step, which could overflow.
    inside = static_cast<uint64_t>(size - 1) <= room / stride;
  }
  if (inside) return absl::OkStatus();
  return Refuse(op, size, " cells from ", start, " in steps of ", step,
                " leave axis ", axis, " of ", cells, " cells");
}

absl::StatusOr<Shape> SliceShape(Op op, const SliceAttributes& slice,
                                 const Shape& x) {
  RETURN_IF_ERROR(CheckEntries(op, "starts", slice.starts.size(), x));
  RETURN_IF_ERROR(CheckEntries(op, "steps", slice.steps.size(), x));
  RETURN_IF_ERROR(CheckEntries(op, "sizes", slice.sizes.size(), x));
  for (int axis = 0; axis < x.rank(); ++axis) {
    RETURN_IF_ERROR(CheckSliceAxis(op, slice, axis, x[axis]));
  }
  return Shape::CreateMaybeEmpty(slice.sizes);
}

// Checks the padding of one axis with `cells` cells on the unpadded side.
absl::Status CheckPadAxis(Op op, const PadAttributes& pad, int axis,
                          int64_t cells) {
  const int64_t before = pad.before[static_cast<size_t>(axis)];
  const int64_t after = pad.after[static_cast<size_t>(axis)];
  if (before < 0 || after < 0 || before > kMaxElements ||
      after > kMaxElements) {
    return Refuse(op, "padding ", before, " and ", after, " of axis ", axis,
                  " must lie between 0 and ", kMaxElements);
  }
  // Reflection does not repeat the edge, so it adds fewer cells than there are.
  if (pad.mode == PadMode::kReflect &&
      std::max(before, after) > std::max<int64_t>(cells - 1, 0)) {
    return Refuse(op, "reflected padding ", before, " and ", after, " of axis ",
                  axis, " must be below its ", cells, " cells");
  }
  if (pad.mode == PadMode::kEdge && cells == 0 && before + after > 0) {
    return Refuse(op, "axis ", axis, " has no edge to repeat");
  }
  return absl::OkStatus();
}

absl::Status CheckPadEntries(Op op, const PadAttributes& pad, const Shape& x) {
  RETURN_IF_ERROR(CheckEntries(op, "before", pad.before.size(), x));
  return CheckEntries(op, "after", pad.after.size(), x);
}

// Checks that the table has the announced size and points into the input.
absl::Status CheckResizeAxis(Op op, const ResizeAxis& axis, const Shape& x) {
  const int64_t cells = x[axis.axis];
  const size_t entries = axis.indices.size();
  if (axis.size < 0 || axis.taps < 1 || axis.size > kMaxElements / axis.taps ||
      static_cast<size_t>(axis.size * axis.taps) != entries ||
      axis.weights.size() != entries) {
    return Refuse(op, "axis ", axis.axis, " has ", axis.size, " cells of ",
                  axis.taps, " taps but a table of ", entries, " indices and ",
                  axis.weights.size(), " weights");
  }
  for (int64_t index : axis.indices) {
    if (index < 0 || index >= cells) {
      return Refuse(op, "index ", index, " of axis ", axis.axis,
                    " lies outside its ", cells, " cells");
    }
  }
  for (double weight : axis.weights) {
    if (!std::isfinite(weight)) {
      return Refuse(op, "a weight of axis ", axis.axis, " is ", weight);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Shape> ResizeShape(Op op, const ResizeAttributes& resize,
                                  const Shape& x) {
  Dims dims = DimsOf(x);
  std::vector<bool> seen(dims.size(), false);
  for (const ResizeAxis& axis : resize.axes) {
    RETURN_IF_ERROR(CheckAxis(op, axis.axis, x.rank()));
    const auto i = static_cast<size_t>(axis.axis);
    if (seen[i]) return Refuse(op, "axis ", axis.axis, " stands twice");
    seen[i] = true;
    RETURN_IF_ERROR(CheckResizeAxis(op, axis, x));
    dims[i] = axis.size;
  }
  return Shape::CreateMaybeEmpty(dims);
}

}  // namespace

Result Transpose(Op op, const Attributes& attributes, Inputs inputs) {
  const Shape& x = inputs[0].shape;
  const std::vector<int>& permutation =
      std::get<TransposeAttributes>(attributes).permutation;
  RETURN_IF_ERROR(CheckEntries(op, "permutation", permutation.size(), x));
  std::vector<bool> seen(permutation.size(), false);
  Dims dims;
  for (int axis : permutation) {
    RETURN_IF_ERROR(CheckAxis(op, axis, x.rank()));
    if (seen[static_cast<size_t>(axis)]) {
      return Refuse(op, "axis ", axis, " stands twice in the permutation");
    }
    seen[static_cast<size_t>(axis)] = true;
    dims.push_back(x[axis]);
  }
  ASSIGN_OR_RETURN(const Shape y, Shape::CreateMaybeEmpty(dims));
  return TensorTypes{{inputs[0].dtype, y}};
}

Result Slice(Op op, const Attributes& attributes, Inputs inputs) {
  ASSIGN_OR_RETURN(
      const Shape y,
      SliceShape(op, std::get<SliceAttributes>(attributes), inputs[0].shape));
  return TensorTypes{{inputs[0].dtype, y}};
}

Result SliceGrad(Op op, const Attributes& attributes, Inputs inputs) {
  const auto& grad = std::get<SliceGradAttributes>(attributes);
  const DType dtype = inputs[0].dtype;
  ASSIGN_OR_RETURN(const Shape dy, SliceShape(op, grad.slice, grad.input));
  RETURN_IF_ERROR(CheckType(op, "dy", inputs[0], {dtype, dy}));
  return TensorTypes{{dtype, grad.input}};
}

Result Pad(Op op, const Attributes& attributes, Inputs inputs) {
  const auto& pad = std::get<PadAttributes>(attributes);
  const Shape& x = inputs[0].shape;
  RETURN_IF_ERROR(CheckPadEntries(op, pad, x));
  // The value is stored as a double, which must be a whole number here.
  if (!IsFloating(inputs[0].dtype) &&
      !(pad.value == std::trunc(pad.value) &&
        std::abs(pad.value) <= kMaxExactInteger)) {
    return Refuse(op, "the value ", pad.value, " is no ",
                  DTypeName(inputs[0].dtype));
  }
  Dims dims;
  for (int axis = 0; axis < x.rank(); ++axis) {
    RETURN_IF_ERROR(CheckPadAxis(op, pad, axis, x[axis]));
    const auto i = static_cast<size_t>(axis);
    ASSIGN_OR_RETURN(int64_t cells, AddCells(op, x[axis], pad.before[i]));
    ASSIGN_OR_RETURN(cells, AddCells(op, cells, pad.after[i]));
    dims.push_back(cells);
  }
  ASSIGN_OR_RETURN(const Shape y, Shape::CreateMaybeEmpty(dims));
  return TensorTypes{{inputs[0].dtype, y}};
}

Result PadGrad(Op op, const Attributes& attributes, Inputs inputs) {
  const auto& pad = std::get<PadAttributes>(attributes);
  const Shape& dy = inputs[0].shape;
  RETURN_IF_ERROR(CheckFloating(op, inputs[0]));
  RETURN_IF_ERROR(CheckPadEntries(op, pad, dy));
  Dims dims;
  for (int axis = 0; axis < dy.rank(); ++axis) {
    const auto i = static_cast<size_t>(axis);
    // A rough bound that keeps the difference from overflowing. The exact check
    // follows below.
    if (pad.before[i] < 0 || pad.before[i] > dy[axis] || pad.after[i] < 0 ||
        pad.after[i] > dy[axis] - pad.before[i]) {
      return Refuse(op, "padding ", pad.before[i], " and ", pad.after[i],
                    " of axis ", axis, " must be at least 0 and fit into its ",
                    dy[axis], " cells");
    }
    dims.push_back(dy[axis] - pad.before[i] - pad.after[i]);
    RETURN_IF_ERROR(CheckPadAxis(op, pad, axis, dims.back()));
  }
  ASSIGN_OR_RETURN(const Shape dx, Shape::CreateMaybeEmpty(dims));
  return TensorTypes{{inputs[0].dtype, dx}};
}

Result Concat(Op op, const Attributes& attributes, Inputs inputs) {
  const int axis = std::get<AxisAttributes>(attributes).axis;
  const TensorType& first = inputs[0];
  RETURN_IF_ERROR(CheckAxis(op, axis, first.shape.rank()));
  Dims dims = DimsOf(first.shape);
  int64_t& cells = dims[static_cast<size_t>(axis)];
  for (const TensorType& input : inputs.subspan(1)) {
    bool fits =
        input.dtype == first.dtype && input.shape.rank() == first.shape.rank();
    for (int i = 0; fits && i < first.shape.rank(); ++i) {
      fits = i == axis || input.shape[i] == first.shape[i];
    }
    if (!fits) {
      return Refuse(op, Text(first), " and ", Text(input),
                    " may differ in axis ", axis, " only");
    }
    ASSIGN_OR_RETURN(cells, AddCells(op, cells, input.shape[axis]));
  }
  ASSIGN_OR_RETURN(const Shape y, Shape::CreateMaybeEmpty(dims));
  return TensorTypes{{first.dtype, y}};
}

Result TopK(Op op, const Attributes& attributes, Inputs inputs) {
  const auto& top = std::get<TopKAttributes>(attributes);
  const TensorType& x = inputs[0];
  if (x.dtype == DType::kBool)
    return Refuse(op, "needs numbers, not ", Text(x));
  RETURN_IF_ERROR(CheckAxis(op, top.axis, x.shape.rank()));
  if (top.k < 0 || top.k > x.shape[top.axis]) {
    return Refuse(op, "k ", top.k, " must lie between 0 and the ",
                  x.shape[top.axis], " cells of axis ", top.axis);
  }
  Dims dims = DimsOf(x.shape);
  dims[static_cast<size_t>(top.axis)] = top.k;
  ASSIGN_OR_RETURN(const Shape y, Shape::CreateMaybeEmpty(dims));
  return TensorTypes{{x.dtype, y}, {DType::kInt64, y}};
}

Result Random(Op op, const Attributes& attributes, Inputs inputs) {
  const auto& random = std::get<RandomAttributes>(attributes);
  RETURN_IF_ERROR(CheckType(op, "seed", inputs[0], {DType::kInt64, {}}));
  RETURN_IF_ERROR(CheckType(op, "step", inputs[1], {DType::kInt64, {}}));
  if (!std::isfinite(random.first) || !std::isfinite(random.second)) {
    return Refuse(op, random.first, " and ", random.second,
                  " must be finite numbers");
  }
  if (random.distribution == RandomDistribution::kUniform &&
      !(random.first <= random.second)) {
    return Refuse(op, "low ", random.first, " is above high ", random.second);
  }
  if (random.distribution == RandomDistribution::kNormal &&
      !(random.second >= 0)) {
    return Refuse(op, "the deviation ", random.second, " must be at least 0");
  }
  if (random.shape.elements() > kMaxRandomElements) {
    return Refuse(op, random.shape.ToString(), " has more than ",
                  kMaxRandomElements, " elements");
  }
  return TensorTypes{{DType::kFloat32, random.shape}};
}

Result Resize(Op op, const Attributes& attributes, Inputs inputs) {
  ASSIGN_OR_RETURN(
      const Shape y,
      ResizeShape(op, std::get<ResizeAttributes>(attributes), inputs[0].shape));
  return TensorTypes{{inputs[0].dtype, y}};
}

Result ResizeGrad(Op op, const Attributes& attributes, Inputs inputs) {
  const auto& grad = std::get<ResizeGradAttributes>(attributes);
  RETURN_IF_ERROR(CheckFloating(op, inputs[0]));
  const DType dtype = inputs[0].dtype;
  ASSIGN_OR_RETURN(const Shape dy, ResizeShape(op, grad.resize, grad.input));
  RETURN_IF_ERROR(CheckType(op, "dy", inputs[0], {dtype, dy}));
  return TensorTypes{{dtype, grad.input}};
}

}  // namespace gpupool::engine::type_rules
