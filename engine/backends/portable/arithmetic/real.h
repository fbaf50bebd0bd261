// Elements of the floating types, in the type in which functors compute. (Host
// and device; plain C++.)
#pragma once

#include <cmath>
#include <cstdint>

#include "engine/backends/portable/arithmetic/host_device.h"
#include "engine/backends/portable/arithmetic/numbers.h"

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

// Statistics and parameters of a normalisation of T. They have type T, or may
// be float32 when T has 16 bits.
template <typename T>
struct SideNumbers {
  const void* at = nullptr;
  bool wide = false;  // float32 though T is not

  GPUPOOL_HOST_DEVICE Real_t<T> Get(int64_t i) const {
    if constexpr (sizeof(T) == 2) {
      if (wide) return static_cast<const float*>(at)[i];
    }
    return Load(static_cast<const T*>(at), i);
  }
};

// The same for results.
template <typename T>
struct SideResults {
  void* at = nullptr;
  bool wide = false;

  GPUPOOL_HOST_DEVICE void Set(int64_t i, Real_t<T> x) const {
    if constexpr (sizeof(T) == 2) {
      if (wide) {
        static_cast<float*>(at)[i] = x;
        return;
      }
    }
    Store(static_cast<T*>(at), i, x);
  }
};

}  // namespace gpupool::engine::portable
