#include "engine/graph/window.h"

namespace gpupool::engine {
namespace {

// The attributes that convolutions and pools share.
struct Slide {
  Extent stride, dilation;
  Padding padding;
  bool ceil_mode = false;
};

WindowAxis AxisOf(const Slide& slide, int64_t Extent::*axis) {
  WindowAxis result;
  result.stride = slide.stride.*axis;
  result.dilation = slide.dilation.*axis;
  result.begin = slide.padding.begin.*axis;
  result.end = slide.padding.end.*axis;
  result.ceil_mode = slide.ceil_mode;
  return result;
}

// Returns the window over the spatial axes of x, which follow N and C.
Window Slides(const Slide& slide, const Shape& x, const Extent& kernel) {
  Window window{};
  // Images leave axis 0 at its default: one cell, one window.
  const bool volume = x.rank() == 5;
  if (volume) {
    window[0] = AxisOf(slide, &Extent::d);
    window[0].input = x[2];
    window[0].kernel = kernel.d;
  }
  window[1] = AxisOf(slide, &Extent::h);
  window[1].input = x[x.rank() - 2];
  window[1].kernel = kernel.h;
  window[2] = AxisOf(slide, &Extent::w);
  window[2].input = x[x.rank() - 1];
  window[2].kernel = kernel.w;
  return window;
}

}  // namespace

int64_t WindowAxis::output() const {
  const int64_t free = input + begin + end - reach();
  if (!ceil_mode) return free / stride + 1;
  // Rounded up: the last window may reach beyond the padding.
  const int64_t cells = (free + stride - 1) / stride + 1;
  // The last window must start within the input or the padding before it, as in
  // PyTorch; a window in the padding after it would see no input.
  return (cells - 1) * stride >= input + begin ? cells - 1 : cells;
}

Window WindowOf(const Conv2dAttributes& conv, const Shape& x, const Shape& w) {
  const Extent kernel{w[w.rank() - 2], w[w.rank() - 1],
                      w.rank() == 5 ? w[2] : 0};
  return Slides({conv.stride, conv.dilation, conv.padding}, x, kernel);
}

Window WindowOf(const Pool2dAttributes& pool, const Shape& x) {
  return Slides({pool.stride, pool.dilation, pool.padding, pool.ceil_mode}, x,
                pool.kernel);
}

int64_t KernelCells(const Window& window) {
  return window[0].kernel * window[1].kernel * window[2].kernel;
}

int64_t OutputCells(const Window& window) {
  return window[0].output() * window[1].output() * window[2].output();
}

int64_t InputCell(const Window& window, int64_t y, int64_t k) {
  // Peels the row-major indices from the last axis on.
  int64_t cell = 0;
  int64_t stride = 1;
  for (int axis = kWindowAxes; axis-- > 0;) {
    const WindowAxis& at = window[static_cast<size_t>(axis)];
    const int64_t size = at.output();
    const int64_t position =
        y % size * at.stride - at.begin + k % at.kernel * at.dilation;
    if (position < 0 || position >= at.input) return -1;
    cell += position * stride;
    stride *= at.input;
    y /= size;
    k /= at.kernel;
  }
  return cell;
}

}  // namespace gpupool::engine
