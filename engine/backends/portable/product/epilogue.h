// The end of a product: bias, residual and activation, before the result is
// stored. (Host and device; plain C++.)
#pragma once

#include <cstdint>

#include "engine/backends/portable/arithmetic/host_device.h"
#include "engine/backends/portable/arithmetic/real.h"
#include "engine/backends/portable/arithmetic/scalar_math.h"
#include "engine/graph/functions.h"

namespace gpupool::engine::portable {

// Computes activation(product + bias + residual) of engine/graph/attributes.h.
template <typename T>
struct EpilogueOf {
  const T* bias = nullptr;      // null: none
  const T* residual = nullptr;  // null: none
  Activation activation = Activation::kNone;
  UnaryFunction unary = UnaryFunction::kAbs;  // of Activation::kUnary
  double alpha = 0, beta = 0;

  // Returns the result of the element at `at` in memory, in channel or column
  // `channel`.
  GPUPOOL_HOST_DEVICE Real_t<T> Apply(Real_t<T> product, int64_t channel,
                                      int64_t at) const {
    using R = Real_t<T>;
    R y = product;
    if (bias != nullptr) y += Load(bias, channel);
    if (residual != nullptr) y += Load(residual, at);
    if (activation == Activation::kUnary) {
      return ApplyUnary(unary, static_cast<R>(alpha), static_cast<R>(beta), y);
    }
    return Activate(activation, y);
  }
};

}  // namespace gpupool::engine::portable
