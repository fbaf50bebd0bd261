// The gradient of a value that was cut into slices. Adding one value of zeros
// for each slice would cost the square of the number of slices (a recurrent
// layer has one for each step), so the parts are joined instead. Pure.
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

// Returns the sum of the parts' gradients, with the type of the whole, as one
// concatenation along the axis that they cut, with zeros between the parts.
// Returns an invalid value when they overlap, cut several axes, or skip cells.
absl::StatusOr<ValueId> JoinSlices(GraphBuilder& builder,
                                   const TensorType& whole,
                                   std::vector<SlicePart> parts);

}  // namespace gpupool::engine::autodiff
