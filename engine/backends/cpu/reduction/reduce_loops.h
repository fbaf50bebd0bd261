// The inner loops of a reduction, chosen once for the processor at hand.
#pragma once

#include <cstdint>

namespace gpupool::engine {

struct ReduceLoops {
  // All of x[0 .. count).
  float (*row)(const float* x, int64_t count);
  // Combines y[c] with x[r * stride + c] for all rows r.
  void (*columns)(const float* x, int64_t rows, int64_t stride, float* y,
                  int64_t columns);
  float neutral;
};

}  // namespace gpupool::engine
