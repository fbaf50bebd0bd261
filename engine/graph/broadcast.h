// Broadcasting as in NumPy: shapes are aligned at their last axes, missing
// axes count as 1, and an axis of 1 repeats. Pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/tensor/shape.h"

namespace gpupool::engine {

// The shape that both broadcast to; axes of 0 are allowed and meet 0 or 1.
// InvalidArgument names the two shapes.
absl::StatusOr<Shape> BroadcastShapes(const Shape& a, const Shape& b);

// Whether `from` alone broadcasts to exactly `to`.
bool BroadcastsTo(const Shape& from, const Shape& to);

// For each axis of `to`, how many elements of a row-major `from` lie between
// its cells: 0 where `from` repeats. `from` broadcasts to `to`.
std::vector<int64_t> BroadcastStrides(const Shape& from, const Shape& to);

}  // namespace gpupool::engine
