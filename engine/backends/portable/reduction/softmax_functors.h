// Functors of softmax, its logarithm and their gradients. Part of the norm
// family. (Host and device; plain C++.) T is a floating type. Sums are double.
#pragma once

#include <cmath>
#include <cstdint>

#include "engine/backends/portable/arithmetic/host_device.h"
#include "engine/backends/portable/arithmetic/real.h"

namespace gpupool::engine::portable {

// The greatest number of a row and the sum of exp(x - greatest), known to all
// lanes.
template <typename R>
struct RowExponents {
  R top = 0;
  double sum = 0;
};

template <typename T, typename Group>
GPUPOOL_HOST_DEVICE inline RowExponents<Real_t<T>> ExponentsOf(
    const Group& group, const T* x, int64_t width) {
  using R = Real_t<T>;
  RowExponents<R> result;
  R top = -R(HUGE_VAL);
  for (int64_t i = group.lane(); i < width; i += group.lanes()) {
    const R number = Load(x, i);
    if (number > top) top = number;
  }
  result.top = group.Max(top);
  double sum = 0;
  for (int64_t i = group.lane(); i < width; i += group.lanes()) {
    sum += std::exp(Load(x, i) - result.top);
  }
  result.sum = group.Sum(sum);
  return result;
}

// Computes a row of y = softmax(x), or its logarithm. y may be x.
template <typename T, bool kLog>
struct SoftmaxFunctor {
  const T* x = nullptr;
  T* y = nullptr;
  int64_t width = 1;

  template <typename Group>
  GPUPOOL_HOST_DEVICE void operator()(const Group& group, int64_t row) const {
    using R = Real_t<T>;
    const T* from = x + row * width;
    T* to = y + row * width;
    const RowExponents<R> exponents = ExponentsOf(group, from, width);
    const auto scale = static_cast<R>(1 / exponents.sum);
    const auto logarithm = static_cast<R>(std::log(exponents.sum));
    for (int64_t i = group.lane(); i < width; i += group.lanes()) {
      const R above = Load(from, i) - exponents.top;
      Store(to, i, kLog ? above - logarithm : std::exp(above) * scale);
    }
  }
};

// Computes a row of dx = y * (dy - sum of dy y). For the logarithm, dx = dy -
// exp(y) * sum of dy.
template <typename T, bool kLog>
struct SoftmaxGradFunctor {
  const T* dy = nullptr;
  const T* y = nullptr;
  T* dx = nullptr;
  int64_t width = 1;

  template <typename Group>
  GPUPOOL_HOST_DEVICE void operator()(const Group& group, int64_t row) const {
    using R = Real_t<T>;
    const int64_t first = row * width;
    double sum = 0;
    for (int64_t i = group.lane(); i < width; i += group.lanes()) {
      const R slope = Load(dy, first + i);
      sum += kLog ? slope : slope * Load(y, first + i);
    }
    const auto total = static_cast<R>(group.Sum(sum));
    for (int64_t i = group.lane(); i < width; i += group.lanes()) {
      const R slope = Load(dy, first + i);
      const R result = Load(y, first + i);
      Store(dx, first + i,
            kLog ? slope - std::exp(result) * total : result * (slope - total));
    }
  }
};

}  // namespace gpupool::engine::portable
