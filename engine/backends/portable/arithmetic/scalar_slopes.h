// Derivatives of the functions of scalar_math.h. (Host and device; plain C++.)
// At a kink they return the slope of the reference back end.
#pragma once

#include <cmath>

#include "engine/backends/portable/arithmetic/host_device.h"
#include "engine/backends/portable/arithmetic/scalar_math.h"
#include "engine/graph/functions.h"

namespace gpupool::engine::portable {

template <typename R>
GPUPOOL_HOST_DEVICE inline R MishSlope(R x) {
  const R t = std::tanh(Softplus(x));
  return t + x * (R(1) - t * t) * Sigmoid(x);
}

// Returns f'(x).
template <typename R>
GPUPOOL_HOST_DEVICE inline R UnarySlope(UnaryFunction function, R alpha, R beta,
                                        R x) {
  switch (function) {
    case UnaryFunction::kAbs:
      return Sign(x);
    case UnaryFunction::kNegate:
      return R(-1);
    case UnaryFunction::kClip:
      return x >= alpha && x <= beta ? R(1) : R(0);
    case UnaryFunction::kExp:
      return std::exp(x);
    case UnaryFunction::kLog:
      return R(1) / x;
    case UnaryFunction::kSqrt:
      return R(0.5) / std::sqrt(x);
    case UnaryFunction::kReciprocal:
      return R(-1) / (x * x);
    case UnaryFunction::kSin:
      return std::cos(x);
    case UnaryFunction::kCos:
      return -std::sin(x);
    case UnaryFunction::kTan:
      return R(1) / (std::cos(x) * std::cos(x));
    case UnaryFunction::kAsin:
      return R(1) / std::sqrt(R(1) - x * x);
    case UnaryFunction::kAcos:
      return R(-1) / std::sqrt(R(1) - x * x);
    case UnaryFunction::kAtan:
      return R(1) / (R(1) + x * x);
    case UnaryFunction::kSinh:
      return std::cosh(x);
    case UnaryFunction::kCosh:
      return std::sinh(x);
    case UnaryFunction::kAsinh:
      return R(1) / std::sqrt(x * x + R(1));
    case UnaryFunction::kAcosh:
      return R(1) / (std::sqrt(x - R(1)) * std::sqrt(x + R(1)));
    case UnaryFunction::kAtanh:
      return R(1) / (R(1) - x * x);
    case UnaryFunction::kErf:
      return R(1.12837916709551257390) * std::exp(-x * x);
    case UnaryFunction::kLeakyRelu:
      return x > R(0) ? R(1) : alpha;
    case UnaryFunction::kElu:
      return x > R(0) ? R(1) : alpha * std::exp(x);
    case UnaryFunction::kSelu:
      return beta * (x > R(0) ? R(1) : alpha * std::exp(x));
    case UnaryFunction::kCelu:
      return x > R(0) ? R(1) : std::exp(x / alpha);
    case UnaryFunction::kSoftplus:
      return Sigmoid(x);
    case UnaryFunction::kSoftsign:
      return R(1) / ((R(1) + std::fabs(x)) * (R(1) + std::fabs(x)));
    case UnaryFunction::kHardSigmoid: {
      const R y = alpha * x + beta;
      return y > R(0) && y < R(1) ? alpha : R(0);
    }
    case UnaryFunction::kHardSwish:
      if (x < R(-3)) return R(0);
      return x > R(3) ? R(1) : x / R(3) + R(0.5);
    case UnaryFunction::kSilu: {
      const R s = Sigmoid(x);
      return s * (R(1) + x * (R(1) - s));
    }
    case UnaryFunction::kMish:
      return MishSlope(x);
    case UnaryFunction::kShrink:
      return x < -alpha || x > alpha ? R(1) : R(0);
    case UnaryFunction::kThresholdedRelu:
      return x > alpha ? R(1) : R(0);
    default:
      return R(0);
  }
}

// Returns the slope that gives dx when multiplied by dy. `saved` is y, or x for
// GELUs.
template <typename R>
GPUPOOL_HOST_DEVICE inline R ActivationSlope(Activation activation, R saved) {
  switch (activation) {
    case Activation::kRelu:
      return saved > R(0) ? R(1) : R(0);
    case Activation::kGelu:
      return R(0.5) * (R(1) + std::erf(saved * R(0.70710678118654752440))) +
             saved * R(0.39894228040143267794) *
                 std::exp(R(-0.5) * saved * saved);
    case Activation::kGeluTanh: {
      const R t = GeluTanhOf(saved);
      return R(0.5) * (R(1) + t) + R(0.5) * saved * (R(1) - t * t) *
                                       R(0.79788456080286535588) *
                                       (R(1) + R(3 * 0.044715) * saved * saved);
    }
    case Activation::kSigmoid:
      return saved * (R(1) - saved);
    case Activation::kTanh:
      return R(1) - saved * saved;
    default:
      return R(1);
  }
}

}  // namespace gpupool::engine::portable
