// The sliding window of a convolution or a pool, axis by axis, for images and
// volumes. Plain values.
#pragma once

#include <array>
#include <cstdint>

#include "engine/graph/attributes.h"

namespace gpupool::engine {

struct WindowAxis {
  int64_t input = 1;
  int64_t kernel = 1;
  int64_t stride = 1;
  int64_t dilation = 1;
  int64_t begin = 0;  // padding before the input
  int64_t end = 0;    // padding after the input
  bool ceil_mode = false;

  // Returns the cells from the first to the last one that a window covers.
  int64_t reach() const { return dilation * (kernel - 1) + 1; }
  // Returns the output cells. The window must fit into the padded input.
  int64_t output() const;
};

// The axes depth, height and width. An image has one cell of depth.
using Window = std::array<WindowAxis, 3>;
inline constexpr int kWindowAxes = 3;

// Return the window over x, [N, C, H, W] or [N, C, D, H, W]. w is [O, I /
// groups, kernel...] of the same rank. Nothing is checked.
Window WindowOf(const Conv2dAttributes& conv, const Shape& x, const Shape& w);
Window WindowOf(const Pool2dAttributes& pool, const Shape& x);

// Return the cells of the kernel and of the output.
int64_t KernelCells(const Window& window);
int64_t OutputCells(const Window& window);

// Returns the index of an input cell within its channel: the cell at position
// `k` of the window of output cell `y`. All three are row-major indices.
// Returns -1 in the padding.
int64_t InputCell(const Window& window, int64_t y, int64_t k);

}  // namespace gpupool::engine
