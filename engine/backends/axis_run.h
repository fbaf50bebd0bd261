// Cuts the memory of a value at an axis: [before, cells, after] elements, in
// the order of its layout. A plain value.
#pragma once

#include <cstdint>

#include "engine/backends/strides.h"

namespace gpupool::engine {

struct AxisRun {
  int64_t before = 1, cells = 1, after = 1;

  AxisRun(const Shape& shape, Layout layout, int axis) {
    bool behind = false;
    for (const int at : MemoryOrder(shape.rank(), layout)) {
      if (at == axis) {
        cells = shape[at];
        behind = true;
      } else {
        (behind ? after : before) *= shape[at];
      }
    }
  }
};

}  // namespace gpupool::engine
