// An image or a volume as [N, C, area], whatever its layout. A plain value.
#pragma once

#include <cstdint>

#include "engine/graph/attributes.h"
#include "engine/tensor/shape.h"

namespace gpupool::engine {

struct Planes {
  int64_t images, channels, area;
  int64_t channel_stride, cell_stride;

  Planes(const Shape& shape, Layout layout)
      : images(shape[0]),
        channels(shape[1]),
        area(shape.elements() / (images * channels)) {
    const bool last = layout == Layout::kChannelsLast;
    channel_stride = last ? 1 : area;
    cell_stride = last ? channels : 1;
  }

  // Of a cell of plane n * channels + c.
  int64_t offset(int64_t plane, int64_t cell) const {
    return plane / channels * channels * area +
           plane % channels * channel_stride + cell * cell_stride;
  }
};

}  // namespace gpupool::engine
