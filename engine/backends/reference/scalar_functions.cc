#include "engine/backends/reference/scalar_functions.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

namespace gpupool::engine::reference {
namespace {

// More digits and a wider range than any type of a tensor.
using Wide = long double;

double Narrow(Wide x) { return static_cast<double>(x); }

// Beyond this exp(-x) is nothing beside 1.
constexpr double kFlat = 100;

// 1 / (1 + exp(-x)) = exp(x) / (1 + exp(x)), with the exponent that is small.
Wide Sigmoid(Wide x) {
  const Wide small = std::exp(-std::abs(x));
  return (x < 0 ? small : Wide{1}) / (1 + small);
}

// log(1 + exp(x)).
Wide Softplus(Wide x) { return x > kFlat ? x : std::log1p(std::exp(x)); }

// exp(x) - 1, by sinh(y) = (exp(y) - exp(-y)) / 2.
Wide ExpMinusOne(Wide x) {
  return x < -kFlat ? -1 : 2 * std::sinh(x / 2) * std::exp(x / 2);
}

// The normal distribution.
Wide Density(Wide x) {
  return std::exp(-x * x / 2) * std::numbers::inv_sqrtpi_v<Wide> /
         std::numbers::sqrt2_v<Wide>;
}
Wide Probability(Wide x) {
  return std::erfc(-x / std::numbers::sqrt2_v<Wide>) / 2;
}

// Returns 2 u with u = sqrt(2 / pi) (x + 0.044715 x^3). The approximation of
// GELU has (1 + tanh(u)) / 2 = sigmoid(2 u) in place of the probability.
Wide GeluExponent(Wide x) {
  const Wide scale =
      2 * std::numbers::sqrt2_v<Wide> * std::numbers::inv_sqrtpi_v<Wide>;
  return scale * (x + Wide{0.044715L} * x * x * x);
}

double Sign(double x) {
  if (std::isnan(x)) return x;
  return x > 0 ? 1 : (x < 0 ? -1 : 0);
}

// As std::max and std::min, but NaN stays.
double Maximum(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return a + b;
  return std::max(a, b);
}
double Minimum(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return a + b;
  return std::min(a, b);
}

// The result has the sign of b, as in Python. The remainder is within half of b
// to either side.
double Modulo(double a, double b) {
  const double r = std::remainder(a, b);
  return r != 0 && std::signbit(r) != std::signbit(b) ? r + b : r;
}

double IntegerPower(double a, double b) {
  if (a == 0 && b < 0) return 0;
  return std::trunc(std::pow(a, b));
}

// Returns an integer or a bool as int64. Numbers outside give the nearest one.
int64_t Bits(double x) {
  if (x >= 0x1p63) return std::numeric_limits<int64_t>::max();
  if (x < -0x1p63) return std::numeric_limits<int64_t>::min();
  return static_cast<int64_t>(x);
}

// Returns a shifted to the left, modulo 2^64 as an int64; to the right for a
// negative b. Each bit is a factor of 2, so beyond the last bit nothing is
// left.
double ShiftLeft(double a, double b) {
  if (b <= 0) return std::floor(a * std::exp2(b));
  const double y = std::fmod(a * std::exp2(std::min(b, 64.0)), 0x1p64);
  if (y >= 0x1p63) return y - 0x1p64;
  return y < -0x1p63 ? y + 0x1p64 : y;
}

// Returns the derivative of GELU.
double GeluSlope(Wide x) { return Narrow(Probability(x) + x * Density(x)); }

double GeluTanhSlope(Wide x) {
  const Wide s = Sigmoid(GeluExponent(x));
  const Wide slope = 2 * std::numbers::sqrt2_v<Wide> *
                     std::numbers::inv_sqrtpi_v<Wide> *
                     (1 + 3 * Wide{0.044715L} * x * x);
  return Narrow(s + x * slope * s * (1 - s));
}

double IsInf(double sign, double x) {
  return std::isinf(x) && (sign == 0 || (sign > 0) == (x > 0)) ? 1 : 0;
}

double Shrink(double lambda, double bias, double x) {
  if (std::isnan(x)) return x;
  if (x < -lambda) return x + bias;
  return x > lambda ? x - bias : 0;
}

double ShrinkSlope(double lambda, double x) {
  return x < -lambda || x > lambda ? 1 : 0;
}

// tanh(log(n)) = (n^2 - 1) / (n^2 + 1) with n = 1 + exp(x).
double Mish(Wide x) {
  if (x > kFlat) return Narrow(x);
  const Wide above = std::exp(x) * (std::exp(x) + 2);
  return Narrow(x * above / (above + 2));
}

// Misra 2019, arXiv 1908.08681, section 2.
double MishSlope(Wide x) {
  if (x > kFlat && std::isfinite(x)) return 1;
  const Wide e = std::exp(x);
  const Wide omega = 4 * (x + 1) + 4 * e * e + e * e * e + e * (4 * x + 6);
  const Wide delta = 2 * e + e * e + 2;
  return Narrow(e == 0 ? e : e * omega / (delta * delta));
}

// The quotient's rule on x / (1 + exp(-x)), with the exponent that is small.
double SiluSlope(Wide x) {
  const Wide small = std::exp(-std::abs(x));
  const Wide below = (1 + small) * (1 + small);
  return Narrow(x < 0 ? small * (1 + small + x) / below
                      : (1 + small + x * small) / below);
}

// max(0, min(1, x / 6 + 1 / 2)).
double HardSwishGate(double x) {
  if (x <= -3) return 0;
  return x >= 3 ? 1 : (x + 3) / 6;
}

double HardSwishSlope(double x) {
  if (x < -3) return 0;
  return x > 3 ? 1 : (2 * x + 3) / 6;
}

double HardSigmoid(double line) {
  if (line < 0) return 0;
  return line > 1 ? 1 : line;
}

// Returns a function without parameters.
double ApplyPlain(UnaryFunction function, double x) {
  switch (function) {
    case UnaryFunction::kExp:
      return std::exp(x);
    case UnaryFunction::kLog:
      return std::log(x);
    case UnaryFunction::kSqrt:
      return std::sqrt(x);
    case UnaryFunction::kReciprocal:
      return 1 / x;
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
    default:
      return x;
  }
}

double PlainDerivative(UnaryFunction function, double x) {
  switch (function) {
    case UnaryFunction::kExp:
      return std::exp(x);
    case UnaryFunction::kLog:
      return 1 / x;
    case UnaryFunction::kSqrt:
      return 0.5 / std::sqrt(x);
    case UnaryFunction::kReciprocal:
      return -std::pow(x, -2);
    case UnaryFunction::kSin:
      return std::cos(x);
    case UnaryFunction::kCos:
      return -std::sin(x);
    case UnaryFunction::kTan:
      return 1 + std::tan(x) * std::tan(x);
    case UnaryFunction::kAsin:
      return 1 / std::sqrt((1 - x) * (1 + x));
    case UnaryFunction::kAcos:
      return -1 / std::sqrt((1 - x) * (1 + x));
    case UnaryFunction::kAtan:
      return std::pow(std::hypot(x, 1), -2);
    case UnaryFunction::kSinh:
      return std::cosh(x);
    case UnaryFunction::kCosh:
      return std::sinh(x);
    case UnaryFunction::kAsinh:
      return 1 / std::hypot(x, 1);
    case UnaryFunction::kAcosh:
      return 1 / std::sinh(std::acosh(x));
    case UnaryFunction::kAtanh:
      return 1 / ((1 - x) * (1 + x));
    case UnaryFunction::kErf:
      return 2 * std::numbers::inv_sqrtpi * std::exp(-x * x);
    default:
      return 0;
  }
}

}  // namespace

double Apply(const UnaryAttributes& unary, double x) {
  const double alpha = unary.alpha;
  const double beta = unary.beta;
  switch (unary.function) {
    case UnaryFunction::kAbs:
      return std::abs(x);
    case UnaryFunction::kNegate:
      return -x;
    case UnaryFunction::kSign:
      return Sign(x);
    case UnaryFunction::kClip:
      return Minimum(Maximum(x, alpha), beta);
    case UnaryFunction::kLeakyRelu:
      return x < 0 ? alpha * x : x;
    case UnaryFunction::kElu:
      return x < 0 ? Narrow(alpha * ExpMinusOne(x)) : x;
    case UnaryFunction::kSelu:
      return beta * (x > 0 ? x : Narrow(alpha * ExpMinusOne(x)));
    case UnaryFunction::kCelu:
      return x > 0 ? x : Narrow(alpha * ExpMinusOne(x / alpha));
    case UnaryFunction::kSoftplus:
      return Narrow(Softplus(x));
    case UnaryFunction::kSoftsign:
      return x / (1 + std::abs(x));
    case UnaryFunction::kHardSigmoid:
      return HardSigmoid(alpha * x + beta);
    case UnaryFunction::kHardSwish:
      return x * HardSwishGate(x);
    case UnaryFunction::kSilu:
      return Narrow(x * Sigmoid(x));
    case UnaryFunction::kMish:
      return Mish(x);
    case UnaryFunction::kShrink:
      return Shrink(alpha, beta, x);
    case UnaryFunction::kThresholdedRelu:
      return std::isnan(x) || x > alpha ? x : 0;
    case UnaryFunction::kIsNan:
      return std::isnan(x) ? 1 : 0;
    case UnaryFunction::kIsInf:
      return IsInf(alpha, x);
    case UnaryFunction::kNot:
      return x == 0 ? 1 : 0;
    default:
      return ApplyPlain(unary.function, x);
  }
}

double Derivative(const UnaryAttributes& unary, double x) {
  const double alpha = unary.alpha;
  switch (unary.function) {
    case UnaryFunction::kAbs:
      return Sign(x);
    case UnaryFunction::kNegate:
      return -1;
    case UnaryFunction::kClip:
      return x >= alpha && x <= unary.beta ? 1 : 0;
    case UnaryFunction::kLeakyRelu:
      return x > 0 ? 1 : alpha;
    case UnaryFunction::kElu:
      return x > 0 ? 1 : alpha * std::exp(x);
    case UnaryFunction::kSelu:
      return unary.beta * (x > 0 ? 1 : alpha * std::exp(x));
    case UnaryFunction::kCelu:
      return x > 0 ? 1 : std::exp(x / alpha);
    case UnaryFunction::kSoftplus:
      return Narrow(Sigmoid(x));
    case UnaryFunction::kSoftsign:
      return std::pow(1 + std::abs(x), -2);
    case UnaryFunction::kHardSigmoid: {
      const double y = alpha * x + unary.beta;
      return y > 0 && y < 1 ? alpha : 0;
    }
    case UnaryFunction::kHardSwish:
      return HardSwishSlope(x);
    case UnaryFunction::kSilu:
      return SiluSlope(x);
    case UnaryFunction::kMish:
      return MishSlope(x);
    case UnaryFunction::kShrink:
      return ShrinkSlope(alpha, x);
    case UnaryFunction::kThresholdedRelu:
      return x > alpha ? 1 : 0;
    default:
      return PlainDerivative(unary.function, x);
  }
}

double Apply(BinaryFunction function, DType dtype, double a, double b) {
  const bool whole = !IsFloating(dtype);
  switch (function) {
    case BinaryFunction::kAdd:
      return a + b;
    case BinaryFunction::kSubtract:
      return a - b;
    case BinaryFunction::kMultiply:
      return a * b;
    case BinaryFunction::kDivide:
      if (whole) return b == 0 ? 0 : std::trunc(a / b);
      return a / b;
    case BinaryFunction::kPower:
      return whole ? IntegerPower(a, b) : std::pow(a, b);
    case BinaryFunction::kMinimum:
      return Minimum(a, b);
    case BinaryFunction::kMaximum:
      return Maximum(a, b);
    case BinaryFunction::kModulo:
      return whole && b == 0 ? 0 : Modulo(a, b);
    case BinaryFunction::kRemainder:
      return whole && b == 0 ? 0 : std::fmod(a, b);
    case BinaryFunction::kShiftLeft:
      return ShiftLeft(a, b);
    case BinaryFunction::kShiftRight:
      return ShiftLeft(a, -b);
    case BinaryFunction::kAnd:
      return static_cast<double>(Bits(a) & Bits(b));
    case BinaryFunction::kOr:
      return static_cast<double>(Bits(a) | Bits(b));
    case BinaryFunction::kXor:
      return static_cast<double>(Bits(a) ^ Bits(b));
    case BinaryFunction::kEqual:
      return a == b ? 1 : 0;
    case BinaryFunction::kLess:
      return a < b ? 1 : 0;
    case BinaryFunction::kLessOrEqual:
      return a <= b ? 1 : 0;
    case BinaryFunction::kGreater:
      return a > b ? 1 : 0;
    case BinaryFunction::kGreaterOrEqual:
      return a >= b ? 1 : 0;
  }
  return 0;
}

Activation ActivationOf(Op op, const Attributes& attributes) {
  switch (op) {
    case Op::kRelu:
    case Op::kReluGrad:
      return Activation::kRelu;
    case Op::kSigmoid:
    case Op::kSigmoidGrad:
      return Activation::kSigmoid;
    case Op::kTanh:
    case Op::kTanhGrad:
      return Activation::kTanh;
    case Op::kGelu:
    case Op::kGeluGrad:
      return std::get<GeluAttributes>(attributes).tanh_approximation
                 ? Activation::kGeluTanh
                 : Activation::kGelu;
    default:
      return Activation::kNone;
  }
}

double Activate(Activation activation, double x) {
  switch (activation) {
    case Activation::kNone:
      return x;
    case Activation::kRelu:
      return x < 0 ? 0 : x;  // NaN stays
    case Activation::kGelu:
      return Narrow(x * Probability(x));
    case Activation::kGeluTanh:
      return Narrow(x * Sigmoid(GeluExponent(x)));
    case Activation::kSigmoid:
      return Narrow(Sigmoid(x));
    case Activation::kTanh:
      return std::tanh(x);
    case Activation::kUnary:
      break;
  }
  return x;
}

double Activate(const Epilogue& epilogue, double x) {
  return epilogue.activation == Activation::kUnary
             ? Apply(epilogue.unary, x)
             : Activate(epilogue.activation, x);
}

double ActivationSlope(Activation activation, double saved) {
  switch (activation) {
    case Activation::kNone:
      return 1;
    case Activation::kRelu:
      return saved > 0 ? 1 : 0;
    case Activation::kGelu:
      return GeluSlope(saved);
    case Activation::kGeluTanh:
      return GeluTanhSlope(saved);
    case Activation::kSigmoid:
      return saved - saved * saved;
    case Activation::kTanh:
      return (1 - saved) * (1 + saved);
    case Activation::kUnary:
      break;
  }
  return 1;
}

}  // namespace gpupool::engine::reference
