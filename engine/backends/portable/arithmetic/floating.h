// Chooses functors by a floating type. Host only.
#pragma once

#include "engine/backends/portable/arithmetic/real.h"
#include "engine/base/check.h"

namespace gpupool::engine::portable {

// A type as a function argument.
template <typename T>
struct TypeTag {
  using Type = T;
};

// Returns make(TypeTag<T>()) for the T of a floating type.
template <typename Make>
auto ForFloating(DType type, const Make& make) {
  switch (type) {
    case DType::kBFloat16:
      return make(TypeTag<BFloat16>());
    case DType::kFloat16:
      return make(TypeTag<Float16>());
    case DType::kFloat64:
      return make(TypeTag<double>());
    default:
      GPUPOOL_CHECK(type == DType::kFloat32);
      return make(TypeTag<float>());
  }
}

}  // namespace gpupool::engine::portable
