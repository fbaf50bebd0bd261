#include "engine/graph/broadcast.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace gpupool::engine {
namespace {

// Returns the size of axis `axis` when the shape is aligned at the end of
// `rank` axes. Missing axes count as 1.
int64_t AlignedDim(const Shape& shape, int axis, int rank) {
  const int own = axis - (rank - shape.rank());
  return own < 0 ? 1 : shape[own];
}

}  // namespace

absl::StatusOr<Shape> BroadcastShapes(const Shape& a, const Shape& b) {
  const int rank = std::max(a.rank(), b.rank());
  std::vector<int64_t> dims;
  for (int i = 0; i < rank; ++i) {
    const int64_t in_a = AlignedDim(a, i, rank);
    const int64_t in_b = AlignedDim(b, i, rank);
    if (in_a != in_b && in_a != 1 && in_b != 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("shapes ", a.ToString(), " and ", b.ToString(),
                       " do not broadcast against each other"));
    }
    dims.push_back(in_a == 1 ? in_b : in_a);
  }
  return Shape::CreateMaybeEmpty(dims);
}

bool BroadcastsTo(const Shape& from, const Shape& to) {
  if (from.rank() > to.rank()) return false;
  for (int i = 0; i < to.rank(); ++i) {
    const int64_t dim = AlignedDim(from, i, to.rank());
    if (dim != 1 && dim != to[i]) return false;
  }
  return true;
}

std::vector<int64_t> BroadcastStrides(const Shape& from, const Shape& to) {
  std::vector<int64_t> strides(static_cast<size_t>(to.rank()), 0);
  int64_t stride = 1;
  for (int i = to.rank() - 1; i >= to.rank() - from.rank(); --i) {
    const int64_t dim = AlignedDim(from, i, to.rank());
    if (dim != 1) strides[static_cast<size_t>(i)] = stride;
    stride *= dim;
  }
  return strides;
}

}  // namespace gpupool::engine
