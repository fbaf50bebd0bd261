// Functions of integers and bool, modulo 2^64. (Host and device; plain C++.)
// Division, modulo and remainder by 0 give 0.
#pragma once

#include <cstdint>

#include "engine/backends/portable/arithmetic/host_device.h"
#include "engine/backends/portable/arithmetic/numbers.h"
#include "engine/graph/functions.h"

namespace gpupool::engine::portable {

// Returns a to the power b, modulo 2^64. 0 to a negative power is 0.
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
  // The smallest number divided by -1 would overflow.
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

// Returns f(a, b) of integers or bool, modulo 2^64.
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
      return a & b;
    case BinaryFunction::kOr:
      return a | b;
    case BinaryFunction::kXor:
      return a ^ b;
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

// Returns f(x) of an integer or a bool.
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
