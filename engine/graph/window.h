// The sliding window of a convolution or a pool, axis by axis, for images and
// volumes alike. Plain values.
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
  int64_t end = 0;    // and behind it
  bool ceil_mode = false;

  // Cells from the first to the last that a window covers.
  int64_t reach() const { return dilation * (kernel - 1) + 1; }
  // Cells of the output. The window must fit into the padded input.
  int64_t output() const;
};

// Depth, height, width. An image has one cell of depth.
using Window = std::array<WindowAxis, 3>;
inline constexpr int kWindowAxes = 3;

// x is [N, C, H, W] or [N, C, D, H, W] and w [O, I / groups, kernel...] of the
// same rank. Nothing is checked.
Window WindowOf(const Conv2dAttributes& conv, const Shape& x, const Shape& w);
Window WindowOf(const Pool2dAttributes& pool, const Shape& x);

// Cells of the window's kernel and of the output.
int64_t KernelCells(const Window& window);
int64_t OutputCells(const Window& window);

// Row-major index, within one channel of the input, of what lies at position
// `k` of the window that makes output cell `y`; both are row-major indices.
// -1 in the padding.
int64_t InputCell(const Window& window, int64_t y, int64_t k);

}  // namespace gpupool::engine
