// Broadcasting as in NumPy: shapes are aligned at their last axes, missing
// axes count as 1, and an axis of 1 repeats. Pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/tensor/shape.h"

namespace gpupool::engine {

// Returns the shape to which both broadcast. An axis of 0 is allowed and fits 0
// or 1. INVALID_ARGUMENT names the two shapes.
absl::StatusOr<Shape> BroadcastShapes(const Shape& a, const Shape& b);

// Returns whether `from` alone broadcasts to exactly `to`.
bool BroadcastsTo(const Shape& from, const Shape& to);

// Returns for each axis of `to` the distance, in elements of a row-major
// `from`, between neighbouring cells: 0 where `from` repeats. `from` must
// broadcast to `to`.
std::vector<int64_t> BroadcastStrides(const Shape& from, const Shape& to);

}  // namespace gpupool::engine
