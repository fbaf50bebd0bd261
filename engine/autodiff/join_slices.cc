#include "engine/autodiff/join_slices.h"

#include <algorithm>

#include "engine/base/status_macros.h"

namespace gpupool::engine::autodiff {
namespace {

// Returns the only axis that the part does not take as a whole; -1 when there
// are several or the part skips cells.
int CutAxis(const Shape& whole, const SliceAttributes& slice) {
  int cut = -1;
  for (int axis = 0; axis < whole.rank(); ++axis) {
    const auto i = static_cast<size_t>(axis);
    if (slice.steps[i] != 1) return -1;
    if (slice.starts[i] == 0 && slice.sizes[i] == whole[axis]) continue;
    if (cut >= 0) return -1;
    cut = axis;
  }
  return cut;
}

ValueId Zeros(GraphBuilder& builder, const TensorType& whole, int axis,
              int64_t size) {
  std::vector<int64_t> dims(whole.shape.dims().begin(),
                            whole.shape.dims().end());
  dims[static_cast<size_t>(axis)] = size;
  return builder.Constant({whole.dtype, *Shape::Create(dims)}, {0});
}

}  // namespace

absl::StatusOr<ValueId> JoinSlices(GraphBuilder& builder,
                                   const TensorType& whole,
                                   std::vector<SlicePart> parts) {
  const int axis = CutAxis(whole.shape, parts[0].slice);
  if (axis < 0) return ValueId{};
  const auto at = static_cast<size_t>(axis);
  // In order along the axis, so that gaps and overlaps can be seen.
  std::sort(parts.begin(), parts.end(),
            [at](const SlicePart& a, const SlicePart& b) {
              return a.slice.starts[at] < b.slice.starts[at];
            });
  int64_t end = 0;
  for (const SlicePart& part : parts) {
    if (CutAxis(whole.shape, part.slice) != axis ||
        part.slice.starts[at] < end) {
      return ValueId{};
    }
    end = part.slice.starts[at] + part.slice.sizes[at];
  }
  ValueIds joined;
  int64_t filled = 0;
  for (const SlicePart& part : parts) {
    const int64_t start = part.slice.starts[at];
    if (start > filled) {
      joined.push_back(Zeros(builder, whole, axis, start - filled));
    }
    joined.push_back(part.dy);
    filled = start + part.slice.sizes[at];
  }
  if (filled < whole.shape[axis]) {
    joined.push_back(Zeros(builder, whole, axis, whole.shape[axis] - filled));
  }
  return builder.EmitOne(Op::kConcat, joined, AxisAttributes{axis});
}

}  // namespace gpupool::engine::autodiff
