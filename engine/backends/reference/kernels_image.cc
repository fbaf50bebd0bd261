
#include "engine/backends/reference/kernels.h"

namespace gpupool::engine::reference {
namespace {

// Row-major index of [n, c, h, w].
size_t At(const Shape& s, int64_t n, int64_t c, int64_t h, int64_t w) {
  return static_cast<size_t>(((n * s[1] + c) * s[2] + h) * s[3] + w);
}

// Calls visit(x index, w index, y index) for every product of a convolution.
template <typename Visit>
void ForEachProduct(const Conv2dAttributes& conv, const Shape& x,
                    const Shape& w, const Shape& y, Visit visit) {
  const int64_t filters_per_group = w[0] / conv.groups;
  for (int64_t n = 0; n < y[0]; ++n) {
    for (int64_t o = 0; o < y[1]; ++o) {
      const int64_t first = o / filters_per_group * w[1];
      for (int64_t i = 0; i < y[2] * y[3] * w.elements() / w[0]; ++i) {
        int64_t rest = i;
        const int64_t kw = rest % w[3];
        const int64_t kh = (rest /= w[3]) % w[2];
        const int64_t c = (rest /= w[2]) % w[1];
        const int64_t yw = (rest /= w[1]) % y[3];
        const int64_t yh = rest / y[3];
        const int64_t xh =
            yh * conv.stride.h - conv.padding.h + kh * conv.dilation.h;
        const int64_t xw =
            yw * conv.stride.w - conv.padding.w + kw * conv.dilation.w;
        if (xh < 0 || xh >= x[2] || xw < 0 || xw >= x[3]) continue;
        visit(At(x, n, first + c, xh, xw), At(w, o, c, kh, kw),
              At(y, n, o, yh, yw));
      }
    }
  }
}

// Calls visit(x index, y index, position in the window) for every real cell
// of every window.
template <typename Visit>
void ForEachCell(const Pool2dAttributes& pool, const Shape& x, const Shape& y,
                 Visit visit) {
  for (int64_t i = 0; i < y.elements(); ++i) {
    const int64_t yw = i % y[3];
    const int64_t yh = i / y[3] % y[2];
    const int64_t plane = i / y[3] / y[2];
    for (int64_t k = 0; k < pool.kernel.h * pool.kernel.w; ++k) {
      const int64_t xh =
          yh * pool.stride.h - pool.padding.h + k / pool.kernel.w;
      const int64_t xw =
          yw * pool.stride.w - pool.padding.w + k % pool.kernel.w;
      if (xh < 0 || xh >= x[2] || xw < 0 || xw >= x[3]) continue;
      visit(At(x, 0, plane, xh, xw), static_cast<size_t>(i), k);
    }
  }
}

// What each window of an average pool divides by.
Numbers Divisors(const Pool2dAttributes& pool, const Shape& x, const Shape& y) {
  if (!pool.exclude_padding) {
    return Numbers(static_cast<size_t>(y.elements()),
                   static_cast<double>(pool.kernel.h * pool.kernel.w));
  }
  Numbers cells(static_cast<size_t>(y.elements()), 0);
  ForEachCell(pool, x, y, [&](size_t, size_t yi, int64_t) { cells[yi] += 1; });
  return cells;
}

}  // namespace

void Conv2d(const Operands& o) {
  const auto& conv = o.node.get<Conv2dAttributes>();
  const Shape& y = o.out_shape();
  ForEachProduct(conv, o.in_shape(0), o.in_shape(1), y,
                 [&o](size_t xi, size_t wi, size_t yi) {
                   o.out()[yi] += o.in(0)[xi] * o.in(1)[wi];
                 });
  const auto plane = static_cast<size_t>(y[2] * y[3]);
  const auto channels = static_cast<size_t>(y[1]);
  for (size_t i = 0; i < o.out().size(); ++i) {
    double value = o.out()[i];
    if (conv.epilogue.bias) value += o.in(2)[i / plane % channels];
    if (conv.epilogue.residual) value += (*o.inputs.back())[i];
    o.out()[i] = Activate(conv.epilogue.activation, value);
  }
}

void Conv2dInputGrad(const Operands& o) {
  const auto& grad = o.node.get<Conv2dGradAttributes>();
  ForEachProduct(grad.conv, o.out_shape(), o.in_shape(1), o.in_shape(0),
                 [&o](size_t xi, size_t wi, size_t yi) {
                   o.out()[xi] += o.in(0)[yi] * o.in(1)[wi];
                 });
}

void Conv2dWeightGrad(const Operands& o) {
  const auto& grad = o.node.get<Conv2dGradAttributes>();
  const Shape& dy = o.in_shape(0);
  ForEachProduct(grad.conv, o.in_shape(1), o.out_shape(), dy,
                 [&o](size_t xi, size_t wi, size_t yi) {
                   o.out()[wi] += o.in(0)[yi] * o.in(1)[xi];
                 });
  if (!grad.bias_grad) return;
  const auto plane = static_cast<size_t>(dy[2] * dy[3]);
  const auto channels = static_cast<size_t>(dy[1]);
  for (size_t i = 0; i < o.in(0).size(); ++i) {
    o.out(1)[i / plane % channels] += o.in(0)[i];
  }
}

void MaxPool(const Operands& o) {
  const auto& pool = o.node.get<Pool2dAttributes>();
  std::vector<bool> seen(o.out().size(), false);
  ForEachCell(pool, o.in_shape(0), o.out_shape(),
              [&](size_t xi, size_t yi, int64_t position) {
                const double x = o.in(0)[xi];
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
