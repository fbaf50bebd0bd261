// The figures of the synthetic dataset "shapes". Pure.
#pragma once

#include <cstdint>

namespace gpupool::engine {

// Disc, square, triangle and cross, in the order of their classes.
inline constexpr uint32_t kFigures = 4;

// A point relative to the middle of a figure that reaches from -1 to 1. y grows
// downwards.
struct Point {
  double x = 0;
  double y = 0;
};

// Returns whether the point is inside figure `figure`, below kFigures.
bool IsInside(uint32_t figure, const Point& point);

}  // namespace gpupool::engine
