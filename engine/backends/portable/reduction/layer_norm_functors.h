// Functors over the rows of layer norm. (Host and device; plain C++.)
//
// T is a floating type. Sums are made in double, in an order that depends only
// on the row and on the number of lanes of a group.
#pragma once

#include <cmath>
#include <cstdint>

#include "engine/backends/portable/arithmetic/host_device.h"
#include "engine/backends/portable/arithmetic/real.h"
#include "engine/backends/portable/arithmetic/two_sums.h"

namespace gpupool::engine::portable {

// Normalises a row.
template <typename T>
struct LayerNormFunctor {
  const T* x = nullptr;
  SideNumbers<T> gamma;
  SideNumbers<T> beta;
  T* y = nullptr;
  SideResults<T> mean;      // null: not wanted
  SideResults<T> variance;  // the same
  double epsilon = 0;
  int64_t width = 1;

  template <typename Group>
  GPUPOOL_HOST_DEVICE void operator()(const Group& group, int64_t row) const {
    using R = Real_t<T>;
    const T* from = x + row * width;
    double sum = 0;
    for (int64_t i = group.lane(); i < width; i += group.lanes()) {
      sum += Load(from, i);
    }
    const double centre = group.Sum(sum) / static_cast<double>(width);
    double squares = 0;
    for (int64_t i = group.lane(); i < width; i += group.lanes()) {
      const double d = Load(from, i) - centre;
      squares += d * d;
    }
    const double spread = group.Sum(squares) / static_cast<double>(width);
    const auto factor = static_cast<R>(1 / std::sqrt(spread + epsilon));
    const auto origin = static_cast<R>(centre);
    T* to = y + row * width;
    for (int64_t i = group.lane(); i < width; i += group.lanes()) {
      Store(to, i,
            (Load(from, i) - origin) * factor * gamma.Get(i) + beta.Get(i));
    }
    if (mean.at == nullptr || group.lane() != 0) return;
    mean.Set(row, origin);
    variance.Set(row, static_cast<R>(spread));
  }
};

// Computes a row of dx.
template <typename T>
struct LayerNormGradFunctor {
  const T* dy = nullptr;
  const T* x = nullptr;
  SideNumbers<T> gamma;
  SideNumbers<T> mean;
  SideNumbers<T> variance;
  T* dx = nullptr;
  double epsilon = 0;
  int64_t width = 1;

  template <typename Group>
  GPUPOOL_HOST_DEVICE void operator()(const Group& group, int64_t row) const {
    using R = Real_t<T>;
    const T* slopes = dy + row * width;
    const T* from = x + row * width;
    const R centre = mean.Get(row);
    const auto spread =
        static_cast<R>(1 / std::sqrt(variance.Get(row) + epsilon));
    TwoSums sums;
    for (int64_t i = group.lane(); i < width; i += group.lanes()) {
      const R u = Load(slopes, i) * gamma.Get(i);
      sums.first += u;
      sums.second += u * ((Load(from, i) - centre) * spread);
    }
    const auto mean_u =
        static_cast<R>(group.Sum(sums.first) / static_cast<double>(width));
    const auto mean_uh =
        static_cast<R>(group.Sum(sums.second) / static_cast<double>(width));
    T* to = dx + row * width;
    for (int64_t i = group.lane(); i < width; i += group.lanes()) {
      const R u = Load(slopes, i) * gamma.Get(i);
      const R h = (Load(from, i) - centre) * spread;
      Store(to, i, spread * (u - mean_u - h * mean_uh));
    }
  }
};

}  // namespace gpupool::engine::portable
