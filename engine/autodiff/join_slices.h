// The gradient of a value that was cut into slices: instead of one value of
// zeros per slice and their sum, which costs the square of the number of
// slices (a recurrent layer has one per step), the parts are joined. Pure.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/graph/builder.h"

namespace gpupool::engine::autodiff {

struct SlicePart {
  ValueId dy;  // gradient of the slice
  SliceAttributes slice;
};

// The sum of the parts' gradients, of the whole's type, as one concatenation
// along the axis that they cut, zeros where no part is. Invalid when they
// overlap, cut several axes, or take other than every cell.
absl::StatusOr<ValueId> JoinSlices(GraphBuilder& builder,
                                   const TensorType& whole,
                                   std::vector<SlicePart> parts);

}  // namespace gpupool::engine::autodiff
