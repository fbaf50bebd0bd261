#include <algorithm>
#include <limits>

#include "engine/backends/reference/kernels.h"
#include "engine/graph/window.h"

namespace gpupool::engine::reference {
namespace {

// The input, weight and output of a convolution.
struct Conv2dShapes {
  const Shape& x;
  const Shape& w;
  const Shape& y;
};

// Calls visit(x index, w index, y index) for every product of a convolution.
// Skips products with padding, which are 0.
template <typename Visit>
void ForEachProduct(const Conv2dAttributes& conv, const Conv2dShapes& shapes,
                    Visit visit) {
  const auto& [x, w, y] = shapes;
  const Window window = WindowOf(conv, x, w);
  const int64_t filters_per_group = w[0] / conv.groups;
  const int64_t kernel_cells = KernelCells(window);
  const int64_t x_cells = x.elements() / x[0] / x[1];
  const int64_t y_cells = OutputCells(window);
  for (int64_t i = 0; i < y.elements(); ++i) {
    const int64_t filter = i / y_cells % y[1];
    const int64_t first_channel =
        i / y_cells / y[1] * x[1] + filter / filters_per_group * w[1];
    for (int64_t k = 0; k < kernel_cells; ++k) {
      const int64_t cell = InputCell(window, i % y_cells, k);
      if (cell < 0) continue;
      for (int64_t c = 0; c < w[1]; ++c) {
        visit(static_cast<size_t>((first_channel + c) * x_cells + cell),
              static_cast<size_t>((filter * w[1] + c) * kernel_cells + k),
              static_cast<size_t>(i));
      }
    }
  }
}

// Calls visit(x index, y index, position in the window) for every cell of every
// window that lies in the input.
template <typename Visit>
void ForEachCell(const Pool2dAttributes& pool, const Shape& x, const Shape& y,
                 Visit visit) {
  const Window window = WindowOf(pool, x);
  const int64_t x_cells = x.elements() / x[0] / x[1];
  const int64_t y_cells = OutputCells(window);
  for (int64_t i = 0; i < y.elements(); ++i) {
    for (int64_t k = 0; k < KernelCells(window); ++k) {
      const int64_t cell = InputCell(window, i % y_cells, k);
      if (cell < 0) continue;
      visit(static_cast<size_t>(i / y_cells * x_cells + cell),
            static_cast<size_t>(i), k);
    }
  }
}

// Returns the number of cells along an axis that output cell y averages.
int64_t CellsOf(const WindowAxis& axis, int64_t y, bool with_padding) {
  const int64_t low = with_padding ? -axis.begin : 0;
  const int64_t high = axis.input + (with_padding ? axis.end : 0);
  int64_t cells = 0;
  for (int64_t k = 0; k < axis.kernel; ++k) {
    const int64_t at = y * axis.stride - axis.begin + k * axis.dilation;
    if (at >= low && at < high) ++cells;
  }
  return cells;
}

// Returns the divisor of each window of an average pool.
Numbers Divisors(const Pool2dAttributes& pool, const Shape& x, const Shape& y) {
  const Window window = WindowOf(pool, x);
  Numbers divisors;
  for (int64_t i = 0; i < y.elements(); ++i) {
    int64_t rest = i;
    int64_t cells = 1;
    for (int axis = kWindowAxes; axis-- > 0;) {
      const WindowAxis& at = window[static_cast<size_t>(axis)];
      cells *= CellsOf(at, rest % at.output(), !pool.exclude_padding);
      rest /= at.output();
    }
    divisors.push_back(static_cast<double>(cells));
  }
  return divisors;
}

}  // namespace

void Conv2d(const Operands& o) {
  const auto& conv = o.node.get<Conv2dAttributes>();
  const Shape& y = o.out_shape();
  ForEachProduct(conv, {.x = o.in_shape(0), .w = o.in_shape(1), .y = y},
                 [&o](size_t xi, size_t wi, size_t yi) {
                   o.out()[yi] += o.in(0)[xi] * o.in(1)[wi];
                 });
  const auto plane = static_cast<size_t>(y.elements() / y[0] / y[1]);
  const auto channels = static_cast<size_t>(y[1]);
  for (size_t i = 0; i < o.out().size(); ++i) {
    double value = o.out()[i];
    if (conv.epilogue.bias) value += o.in(2)[i / plane % channels];
    if (conv.epilogue.residual) value += o.inputs.back()[i];
    o.out()[i] = Activate(conv.epilogue, value);
  }
}

void Conv2dInputGrad(const Operands& o) {
  const auto& grad = o.node.get<Conv2dGradAttributes>();
  ForEachProduct(grad.conv,
                 {.x = o.out_shape(), .w = o.in_shape(1), .y = o.in_shape(0)},
                 [&o](size_t xi, size_t wi, size_t yi) {
                   o.out()[xi] += o.in(0)[yi] * o.in(1)[wi];
                 });
}

void Conv2dWeightGrad(const Operands& o) {
  const auto& grad = o.node.get<Conv2dGradAttributes>();
  const Shape& dy = o.in_shape(0);
  ForEachProduct(grad.conv, {.x = o.in_shape(1), .w = o.out_shape(), .y = dy},
                 [&o](size_t xi, size_t wi, size_t yi) {
                   o.out()[wi] += o.in(0)[yi] * o.in(1)[xi];
                 });
  if (!grad.bias_grad) return;
  const auto plane = static_cast<size_t>(dy.elements() / dy[0] / dy[1]);
  const auto channels = static_cast<size_t>(dy[1]);
  for (size_t i = 0; i < o.in(0).size(); ++i) {
    o.out(1)[i / plane % channels] += o.in(0)[i];
  }
}

void MaxPool(const Operands& o) {
  const auto& pool = o.node.get<Pool2dAttributes>();
  std::vector<bool> seen(o.out().size(), false);
  std::fill(o.out().begin(), o.out().end(),
            -std::numeric_limits<double>::infinity());
  ForEachCell(pool, o.in_shape(0), o.out_shape(),
              [&](size_t xi, size_t yi, int64_t position) {
                const double x = o.in(0)[xi];
                // The first cell always counts, since it may be -infinity or
                // NaN.
                if (seen[yi] && !(x > o.out()[yi])) return;
                seen[yi] = true;
                o.out()[yi] = x;
                if (pool.with_argmax) {
                  o.out(1)[yi] = static_cast<double>(position);
                }
              });
}

void MaxPoolGrad(const Operands& o) {
  const auto& grad = o.node.get<Pool2dGradAttributes>();
  ForEachCell(grad.pool, grad.input, o.in_shape(0),
              [&o](size_t xi, size_t yi, int64_t position) {
                if (o.in(1)[yi] == static_cast<double>(position)) {
                  o.out()[xi] += o.in(0)[yi];
                }
              });
}

void AvgPool(const Operands& o) {
  const auto& pool = o.node.get<Pool2dAttributes>();
  const Numbers divisors = Divisors(pool, o.in_shape(0), o.out_shape());
  ForEachCell(pool, o.in_shape(0), o.out_shape(),
              [&](size_t xi, size_t yi, int64_t) {
                o.out()[yi] += o.in(0)[xi] / divisors[yi];
              });
}

void AvgPoolGrad(const Operands& o) {
  const auto& grad = o.node.get<Pool2dGradAttributes>();
  const Numbers divisors = Divisors(grad.pool, grad.input, o.in_shape(0));
  ForEachCell(grad.pool, grad.input, o.in_shape(0),
              [&](size_t xi, size_t yi, int64_t) {
                o.out()[xi] += o.in(0)[yi] / divisors[yi];
              });
}

void GlobalAvgPool(const Operands& o) {
  const size_t plane = o.in(0).size() / o.out().size();
  for (size_t i = 0; i < o.in(0).size(); ++i) {
    o.out()[i / plane] += o.in(0)[i] / static_cast<double>(plane);
  }
}

void GlobalAvgPoolGrad(const Operands& o) {
  const size_t plane = o.out().size() / o.in(0).size();
  for (size_t i = 0; i < o.out().size(); ++i) {
    o.out()[i] = o.in(0)[i / plane] / static_cast<double>(plane);
  }
}

}  // namespace gpupool::engine::reference
