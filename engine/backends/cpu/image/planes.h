// Views an image or a volume of either layout as [N, C, area]. A plain value.
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

  // Returns the offset in elements of a cell. Plane n * channels + c is channel
  // c of image n.
  int64_t offset(int64_t plane, int64_t cell) const {
    return plane / channels * channels * area +
           plane % channels * channel_stride + cell * cell_stride;
  }
};

}  // namespace gpupool::engine
