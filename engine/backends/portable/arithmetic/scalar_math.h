// Functions of one or two numbers, for the elementwise ops. (Host and device;
// plain C++.) R is float or double. Definitions, edge cases and slopes at kinks
// are those of engine/graph/functions.h and of the reference back end.
#pragma once

#include <cmath>
#include <cstdint>

#include "engine/backends/portable/arithmetic/host_device.h"
#include "engine/graph/functions.h"

namespace gpupool::engine::portable {

template <typename R>
GPUPOOL_HOST_DEVICE inline R Sigmoid(R x) {
  return R(1) / (R(1) + std::exp(-x));
}
template <typename R>
GPUPOOL_HOST_DEVICE inline R Maximum(R a, R b) {
  return a != a || b != b ? a + b : (a > b ? a : b);
}
template <typename R>
GPUPOOL_HOST_DEVICE inline R Minimum(R a, R b) {
  return a != a || b != b ? a + b : (a < b ? a : b);
}
template <typename R>
GPUPOOL_HOST_DEVICE inline R Softplus(R x) {
  return Maximum(x, R(0)) + std::log1p(std::exp(-std::fabs(x)));
}
template <typename R>
GPUPOOL_HOST_DEVICE inline R Sign(R x) {
  return x > R(0) ? R(1) : (x < R(0) ? R(-1) : (x == R(0) ? R(0) : x));
}
template <typename R>
GPUPOOL_HOST_DEVICE inline R GeluTanhOf(R x) {
  return std::tanh(R(0.79788456080286535588) * (x + R(0.044715) * x * x * x));
}

template <typename R>
GPUPOOL_HOST_DEVICE inline R ApplyUnary(UnaryFunction function, R alpha, R beta,
                                        R x) {
  switch (function) {
    case UnaryFunction::kAbs:
      return std::fabs(x);
    case UnaryFunction::kNegate:
      return -x;
    case UnaryFunction::kSign:
      return Sign(x);
    case UnaryFunction::kClip:
      return Minimum(Maximum(x, alpha), beta);
    case UnaryFunction::kExp:
      return std::exp(x);
    case UnaryFunction::kLog:
      return std::log(x);
    case UnaryFunction::kSqrt:
      return std::sqrt(x);
    case UnaryFunction::kReciprocal:
      return R(1) / x;
    case UnaryFunction::kFloor:
      return std::floor(x);
    case UnaryFunction::kCeil:
      return std::ceil(x);
    case UnaryFunction::kRound:
      return std::nearbyint(x);
    case UnaryFunction::kSin:
      return std::sin(x);
    case UnaryFunction::kCos:
      return std::cos(x);
    case UnaryFunction::kTan:
      return std::tan(x);
    case UnaryFunction::kAsin:
      return std::asin(x);
    case UnaryFunction::kAcos:
      return std::acos(x);
    case UnaryFunction::kAtan:
      return std::atan(x);
    case UnaryFunction::kSinh:
      return std::sinh(x);
    case UnaryFunction::kCosh:
      return std::cosh(x);
    case UnaryFunction::kAsinh:
      return std::asinh(x);
    case UnaryFunction::kAcosh:
      return std::acosh(x);
    case UnaryFunction::kAtanh:
      return std::atanh(x);
    case UnaryFunction::kErf:
      return std::erf(x);
    case UnaryFunction::kLeakyRelu:
      return x < R(0) ? alpha * x : x;
    case UnaryFunction::kElu:
      return x < R(0) ? alpha * std::expm1(x) : x;
    case UnaryFunction::kSelu:
      return beta * (x > R(0) ? x : alpha * std::expm1(x));
    case UnaryFunction::kCelu:
      return Maximum(R(0), x) + Minimum(R(0), alpha * std::expm1(x / alpha));
    case UnaryFunction::kSoftplus:
      return Softplus(x);
    case UnaryFunction::kSoftsign:
      return x / (R(1) + std::fabs(x));
    case UnaryFunction::kHardSigmoid:
      return Maximum(R(0), Minimum(R(1), alpha * x + beta));
    case UnaryFunction::kHardSwish:
      return x * Maximum(R(0), Minimum(R(1), x / R(6) + R(0.5)));
    case UnaryFunction::kSilu:
      return x * Sigmoid(x);
    case UnaryFunction::kMish:
      return x * std::tanh(Softplus(x));
    case UnaryFunction::kShrink:
      if (x < -alpha) return x + beta;
      return x > alpha ? x - beta : (x == x ? R(0) : x);
    case UnaryFunction::kThresholdedRelu:
      return x != x || x > alpha ? x : R(0);
    case UnaryFunction::kIsNan:
      return x != x ? R(1) : R(0);
    case UnaryFunction::kIsInf:
      return std::fabs(x) == R(HUGE_VALF) &&
                     (alpha == R(0) || (alpha > R(0)) == (x > R(0)))
                 ? R(1)
                 : R(0);
    case UnaryFunction::kNot:
      return x == R(0) ? R(1) : R(0);
  }
  return x;
}

template <typename R>
GPUPOOL_HOST_DEVICE inline R Modulo(R a, R b) {
  const R r = std::fmod(a, b);
  return r != R(0) && (r < R(0)) != (b < R(0)) ? r + b : r;
}

// Returns f(a, b) for floating numbers and, where the function takes it, bool.
template <typename R>
GPUPOOL_HOST_DEVICE inline R ApplyBinary(BinaryFunction function, R a, R b) {
  switch (function) {
    case BinaryFunction::kAdd:
      return a + b;
    case BinaryFunction::kSubtract:
      return a - b;
    case BinaryFunction::kMultiply:
      return a * b;
    case BinaryFunction::kDivide:
      return a / b;
    case BinaryFunction::kPower:
      return std::pow(a, b);
    case BinaryFunction::kMinimum:
      return Minimum(a, b);
    case BinaryFunction::kMaximum:
      return Maximum(a, b);
    case BinaryFunction::kModulo:
      return Modulo(a, b);
    case BinaryFunction::kRemainder:
      return std::fmod(a, b);
    case BinaryFunction::kShiftLeft:
    case BinaryFunction::kShiftRight:
      return a;  // integers only
    case BinaryFunction::kAnd:
      return a != R(0) && b != R(0) ? R(1) : R(0);
    case BinaryFunction::kOr:
      return a != R(0) || b != R(0) ? R(1) : R(0);
    case BinaryFunction::kXor:
      return (a != R(0)) != (b != R(0)) ? R(1) : R(0);
    case BinaryFunction::kEqual:
      return a == b ? R(1) : R(0);
    case BinaryFunction::kLess:
      return a < b ? R(1) : R(0);
    case BinaryFunction::kLessOrEqual:
      return a <= b ? R(1) : R(0);
    case BinaryFunction::kGreater:
      return a > b ? R(1) : R(0);
    case BinaryFunction::kGreaterOrEqual:
      return a >= b ? R(1) : R(0);
  }
  return a;
}

template <typename R>
GPUPOOL_HOST_DEVICE inline R Activate(Activation activation, R x) {
  switch (activation) {
    case Activation::kRelu:
      return x < R(0) ? R(0) : x;  // NaN stays
    case Activation::kGelu:
      return R(0.5) * x * (R(1) + std::erf(x * R(0.70710678118654752440)));
    case Activation::kGeluTanh:
      return R(0.5) * x * (R(1) + GeluTanhOf(x));
    case Activation::kSigmoid:
      return Sigmoid(x);
    case Activation::kTanh:
      return std::tanh(x);
    default:
      return x;
  }
}

}  // namespace gpupool::engine::portable
