// Shapes under broadcasting as in NumPy: aligned at their last axes, an axis
// of 1 repeats. Pure.
#pragma once

#include <algorithm>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "engine/tensor/shape.h"

namespace gpupool::engine {

// The shape that both broadcast to; axes of 0 stay 0. InvalidArgument names
// both shapes.
inline absl::StatusOr<Shape> BroadcastShapes(const Shape& a, const Shape& b) {
  const int rank = std::max(a.rank(), b.rank());
  std::vector<int64_t> dims;
  for (int i = 0; i < rank; ++i) {
    const int in_a = i - (rank - a.rank());
    const int in_b = i - (rank - b.rank());
    const int64_t left = in_a < 0 ? 1 : a[in_a];
    const int64_t right = in_b < 0 ? 1 : b[in_b];
    if (left != right && left != 1 && right != 1) {
      return absl::InvalidArgumentError(absl::StrCat(
          "shapes ", a.ToString(), " and ", b.ToString(), " do not broadcast"));
    }
    dims.push_back(left == 1 ? right : left);
  }
  return Shape::CreateMaybeEmpty(dims);
}

}  // namespace gpupool::engine
