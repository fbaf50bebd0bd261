// The inner loops of a reduction, chosen once for the processor at hand.
#pragma once

#include <cstdint>

namespace gpupool::engine {

struct ReduceLoops {
  // Reduces x[0 .. count) to one number.
  float (*row)(const float* x, int64_t count);
  // Combines x[r * stride + c] of all rows r into y[c].
  void (*columns)(const float* x, int64_t rows, int64_t stride, float* y,
                  int64_t columns);
  float neutral;
};

}  // namespace gpupool::engine
