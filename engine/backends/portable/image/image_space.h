// Images and volumes of any layout, and windows that slide over them, for
// functors of convolutions and pools. (Host and device; plain C++.) An image
// has one cell of depth.
#pragma once

#include <cstdint>

#include "engine/backends/portable/arithmetic/host_device.h"
#include "engine/backends/portable/arithmetic/walk.h"

namespace gpupool::engine::portable {

// A position: example, channel, depth, height, width.
struct Place {
  int64_t example = 0;
  int64_t channel = 0;
  int64_t cell[3] = {0, 0, 0};
};

// Distances in elements between neighbours.
struct SpaceStrides {
  int64_t example = 0;
  int64_t channel = 0;
  int64_t cell[3] = {0, 0, 0};

  GPUPOOL_HOST_DEVICE int64_t At(int64_t n, int64_t c) const {
    return n * example + c * channel;
  }
  GPUPOOL_HOST_DEVICE int64_t At(const Place& place) const {
    int64_t at = this->At(place.example, place.channel);
    for (int axis = 0; axis < 3; ++axis) at += place.cell[axis] * cell[axis];
    return at;
  }
};

// The positions of a value's elements in the order of memory.
struct SpaceGrid {
  Grid grid;  // five axes
  bool channels_last = false;

  GPUPOOL_HOST_DEVICE Place Find(int64_t i) const {
    int64_t at[5];
    grid.Split(i, at);
    Place place;
    place.example = at[0];
    place.channel = channels_last ? at[4] : at[1];
    const int first = channels_last ? 1 : 2;
    for (int axis = 0; axis < 3; ++axis) place.cell[axis] = at[first + axis];
    return place;
  }
};

// A range [begin, end) of a window's positions along an axis.
struct KernelRange {
  int64_t begin = 0;
  int64_t end = 0;

  GPUPOOL_HOST_DEVICE int64_t count() const { return end - begin; }
};

struct SlideAxis {
  int64_t input = 1;
  int64_t output = 1;
  int64_t kernel = 1;
  int64_t stride = 1;
  int64_t dilation = 1;
  int64_t before = 0;  // padding
  int64_t behind = 0;

  // Returns the input cell at position k of the window of output cell y.
  GPUPOOL_HOST_DEVICE int64_t Input(int64_t y, int64_t k) const {
    return y * stride - before + k * dilation;
  }
  // Returns the positions of y's window whose cells lie in [low, high).
  GPUPOOL_HOST_DEVICE KernelRange Within(int64_t y, int64_t low,
                                         int64_t high) const {
    const int64_t first = Input(y, 0);
    KernelRange range;
    if (first < low) range.begin = (low - first + dilation - 1) / dilation;
    range.end = first >= high ? 0 : (high - first + dilation - 1) / dilation;
    if (range.end > kernel) range.end = kernel;
    if (range.begin > range.end) range.begin = range.end;
    return range;
  }
  // Returns the positions of y's window that lie in the input.
  GPUPOOL_HOST_DEVICE KernelRange Real(int64_t y) const {
    return Within(y, 0, input);
  }
  // Returns the positions of y's window that lie in the padded input.
  GPUPOOL_HOST_DEVICE KernelRange Padded(int64_t y) const {
    return Within(y, -before, input + behind);
  }
  // Returns the output cell whose window has input cell x at position k, or -1.
  GPUPOOL_HOST_DEVICE int64_t Output(int64_t x, int64_t k) const {
    const int64_t from = x + before - k * dilation;
    if (from < 0 || from % stride != 0) return -1;
    const int64_t y = from / stride;
    return y < output ? y : -1;
  }
};

struct SlideWindow {
  SlideAxis axis[3];

  GPUPOOL_HOST_DEVICE int64_t kernel_cells() const {
    return axis[0].kernel * axis[1].kernel * axis[2].kernel;
  }
  GPUPOOL_HOST_DEVICE int64_t Position(int64_t d, int64_t h, int64_t w) const {
    return (d * axis[1].kernel + h) * axis[2].kernel + w;
  }

  // Calls visit(position in the kernel, offset) for the cells of an output
  // place's window that lie in the input. `strides` are the input's.
  template <typename Visitor>
  GPUPOOL_HOST_DEVICE void ForEachInput(const Place& y,
                                        const SpaceStrides& strides,
                                        const Visitor& visit) const {
    KernelRange range[3];
    for (int a = 0; a < 3; ++a) range[a] = axis[a].Real(y.cell[a]);
    for (int64_t d = range[0].begin; d < range[0].end; ++d) {
      const int64_t at_d = axis[0].Input(y.cell[0], d) * strides.cell[0];
      for (int64_t h = range[1].begin; h < range[1].end; ++h) {
        const int64_t at_h =
            at_d + axis[1].Input(y.cell[1], h) * strides.cell[1];
        for (int64_t w = range[2].begin; w < range[2].end; ++w) {
          visit(Position(d, h, w),
                at_h + axis[2].Input(y.cell[2], w) * strides.cell[2]);
        }
      }
    }
  }

  // Calls visit(position in the kernel, cells of the output) for the windows
  // that hold an input place.
  template <typename Visitor>
  GPUPOOL_HOST_DEVICE void ForEachOutput(const Place& x,
                                         const Visitor& visit) const {
    int64_t cell[3];
    for (int64_t d = 0; d < axis[0].kernel; ++d) {
      cell[0] = axis[0].Output(x.cell[0], d);
      if (cell[0] < 0) continue;
      for (int64_t h = 0; h < axis[1].kernel; ++h) {
        cell[1] = axis[1].Output(x.cell[1], h);
        if (cell[1] < 0) continue;
        for (int64_t w = 0; w < axis[2].kernel; ++w) {
          cell[2] = axis[2].Output(x.cell[2], w);
          if (cell[2] >= 0) visit(Position(d, h, w), cell);
        }
      }
    }
  }
};

// Returns the offset in elements of an output cell.
GPUPOOL_HOST_DEVICE inline int64_t CellsAt(const SpaceStrides& strides,
                                           const int64_t* cell) {
  return cell[0] * strides.cell[0] + cell[1] * strides.cell[1] +
         cell[2] * strides.cell[2];
}

}  // namespace gpupool::engine::portable
