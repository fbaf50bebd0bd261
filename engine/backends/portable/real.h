// Elements of the floating types in the type that functors compute with. (Host
// and device; plain C++.)
#pragma once

#include <cmath>
#include <cstdint>

#include "engine/backends/portable/host_device.h"
#include "engine/backends/portable/numbers.h"

namespace gpupool::engine::portable {

template <>
inline constexpr DType kTypeOf<double> = DType::kFloat64;

// double for double, else float.
template <typename T>
struct RealOf {
  using Type = float;
};
template <>
struct RealOf<double> {
  using Type = double;
};
template <typename T>
using Real_t = typename RealOf<T>::Type;

template <typename T>
GPUPOOL_HOST_DEVICE inline Real_t<T> Load(const T* from, int64_t i) {
  if constexpr (sizeof(T) == sizeof(double)) {
    return from[i];
  } else {
    return ToFloat(from[i]);
  }
}

template <typename T>
GPUPOOL_HOST_DEVICE inline void Store(T* to, int64_t i, Real_t<T> x) {
  if constexpr (sizeof(T) == sizeof(double)) {
    to[i] = x;
  } else {
    to[i] = FromFloat<T>(x);
  }
}

}  // namespace gpupool::engine::portable
