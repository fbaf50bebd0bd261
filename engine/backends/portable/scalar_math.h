// The functions of one or two numbers behind the elementwise ops. (Host and
// device; plain C++.) R is float or double. Definitions, edge cases and slopes
// at kinks are those of engine/graph/functions.h and of the reference back
// end.
#pragma once

#include <cmath>
#include <cstdint>

#include "engine/backends/portable/host_device.h"
#include "engine/backends/portable/numbers.h"
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
GPUPOOL_HOST_DEVICE inline R MishSlope(R x) {
  const R t = std::tanh(Softplus(x));
  return t + x * (R(1) - t * t) * Sigmoid(x);
}

// f'(x).
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

template <typename R>
GPUPOOL_HOST_DEVICE inline R Modulo(R a, R b) {
  const R r = std::fmod(a, b);
  return r != R(0) && (r < R(0)) != (b < R(0)) ? r + b : r;
}

// Of floating numbers and, where the function takes it, of bool.
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

// dy times this is dx. `saved` is y, for GELUs x.
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

// a to the b-th, modulo 2^64; 0 to a negative power is 0.
GPUPOOL_HOST_DEVICE inline int64_t WholePower(int64_t a, int64_t b) {
  if (b < 0) {
    if (a == 1) return 1;
    return a == -1 ? (b % 2 == 0 ? 1 : -1) : 0;
  }
  auto base = static_cast<uint64_t>(a);
  uint64_t power = 1;
  for (; b > 0; b >>= 1) {
    if ((b & 1) != 0) power *= base;
    base *= base;
  }
  return static_cast<int64_t>(power);
}

GPUPOOL_HOST_DEVICE inline int64_t WholeRemainder(int64_t a, int64_t b) {
  // The smallest number by -1 would overflow.
  return b == 0 || b == -1 ? 0 : a % b;
}

GPUPOOL_HOST_DEVICE inline int64_t WholeModulo(int64_t a, int64_t b) {
  const int64_t r = WholeRemainder(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

GPUPOOL_HOST_DEVICE inline int64_t Shift(int64_t a, int64_t b, bool left) {
  if (b < 0) {
    b = b == INT64_MIN ? INT64_MAX : -b;
    left = !left;
  }
  if (left) {
    return b > 63 ? 0 : static_cast<int64_t>(static_cast<uint64_t>(a) << b);
  }
  return a >> (b > 63 ? 63 : b);  // rounds down
}

// Of integers and bool, modulo 2^64.
GPUPOOL_HOST_DEVICE inline int64_t ApplyBinary(BinaryFunction function,
                                               int64_t a, int64_t b) {
  const auto x = static_cast<uint64_t>(a);
  const auto y = static_cast<uint64_t>(b);
  switch (function) {
    case BinaryFunction::kAdd:
      return static_cast<int64_t>(x + y);
    case BinaryFunction::kSubtract:
      return static_cast<int64_t>(x - y);
    case BinaryFunction::kMultiply:
      return static_cast<int64_t>(x * y);
    case BinaryFunction::kDivide:
      if (b == 0) return 0;
      return b == -1 ? static_cast<int64_t>(uint64_t{0} - x) : a / b;
    case BinaryFunction::kPower:
      return WholePower(a, b);
    case BinaryFunction::kMinimum:
      return a < b ? a : b;
    case BinaryFunction::kMaximum:
      return a > b ? a : b;
    case BinaryFunction::kModulo:
      return WholeModulo(a, b);
    case BinaryFunction::kRemainder:
      return WholeRemainder(a, b);
    case BinaryFunction::kShiftLeft:
      return Shift(a, b, true);
    case BinaryFunction::kShiftRight:
      return Shift(a, b, false);
    case BinaryFunction::kAnd:
      return a != 0 && b != 0;
    case BinaryFunction::kOr:
      return a != 0 || b != 0;
    case BinaryFunction::kXor:
      return (a != 0) != (b != 0);
    case BinaryFunction::kEqual:
      return a == b;
    case BinaryFunction::kLess:
      return a < b;
    case BinaryFunction::kLessOrEqual:
      return a <= b;
    case BinaryFunction::kGreater:
      return a > b;
    case BinaryFunction::kGreaterOrEqual:
      return a >= b;
  }
  return 0;
}

// Of integers and bool.
GPUPOOL_HOST_DEVICE inline int64_t ApplyUnary(UnaryFunction function,
                                              double alpha, double beta,
                                              int64_t x) {
  const auto negative =
      static_cast<int64_t>(uint64_t{0} - static_cast<uint64_t>(x));
  switch (function) {
    case UnaryFunction::kAbs:
      return x < 0 ? negative : x;
    case UnaryFunction::kNegate:
      return negative;
    case UnaryFunction::kSign:
      return (x > 0) - (x < 0);
    case UnaryFunction::kClip:
      if (static_cast<double>(x) < alpha) x = ToWhole(alpha);
      return static_cast<double>(x) > beta ? ToWhole(beta) : x;
    case UnaryFunction::kNot:
      return x == 0;
    default:
      return x;
  }
}

}  // namespace gpupool::engine::portable
