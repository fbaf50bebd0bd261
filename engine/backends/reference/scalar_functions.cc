#include "engine/backends/reference/scalar_functions.h"

#include <algorithm>
#include <cmath>

namespace gpupool::engine::reference {
namespace {

constexpr double kSqrtHalf = 0.70710678118654752440;
constexpr double kSqrtTwoOverPi = 0.79788456080286535588;
constexpr double kInverseSqrtTwoPi = 0.39894228040143267794;
constexpr double kTwoOverSqrtPi = 1.12837916709551257390;
constexpr double kGeluCubic = 0.044715;

double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// log(1 + exp(x)) without overflow for large x.
double Softplus(double x) {
  return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x)));
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

// The result has the sign of b, as in Python.
double Modulo(double a, double b) {
  const double r = std::fmod(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

double IntegerPower(double a, double b) {
  if (a == 0 && b < 0) return 0;
  return std::trunc(std::pow(a, b));
}

// Returns the derivative of GELU.
double GeluSlope(double x) {
  return 0.5 * (1 + std::erf(x * kSqrtHalf)) +
         x * kInverseSqrtTwoPi * std::exp(-0.5 * x * x);
}

double GeluTanhSlope(double x) {
  const double t = std::tanh(kSqrtTwoOverPi * (x + kGeluCubic * x * x * x));
  return 0.5 * (1 + t) +
         0.5 * x * (1 - t * t) * kSqrtTwoOverPi * (1 + 3 * kGeluCubic * x * x);
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

double MishSlope(double x) {
  const double t = std::tanh(Softplus(x));
  return t + x * (1 - t * t) * Sigmoid(x);
}

double SiluSlope(double x) {
  const double s = Sigmoid(x);
  return s * (1 + x * (1 - s));
}

double HardSwishSlope(double x) {
  if (x < -3) return 0;
  return x > 3 ? 1 : x / 3 + 0.5;
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
      return -1 / (x * x);
    case UnaryFunction::kSin:
      return std::cos(x);
    case UnaryFunction::kCos:
      return -std::sin(x);
    case UnaryFunction::kTan:
      return 1 / (std::cos(x) * std::cos(x));
    case UnaryFunction::kAsin:
      return 1 / std::sqrt(1 - x * x);
    case UnaryFunction::kAcos:
      return -1 / std::sqrt(1 - x * x);
    case UnaryFunction::kAtan:
      return 1 / (1 + x * x);
    case UnaryFunction::kSinh:
      return std::cosh(x);
    case UnaryFunction::kCosh:
      return std::sinh(x);
    case UnaryFunction::kAsinh:
      return 1 / std::sqrt(x * x + 1);
    case UnaryFunction::kAcosh:
      return 1 / (std::sqrt(x - 1) * std::sqrt(x + 1));
    case UnaryFunction::kAtanh:
      return 1 / (1 - x * x);
    case UnaryFunction::kErf:
      return kTwoOverSqrtPi * std::exp(-x * x);
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
      return x < 0 ? alpha * std::expm1(x) : x;
    case UnaryFunction::kSelu:
      return beta * (x > 0 ? x : alpha * std::expm1(x));
    case UnaryFunction::kCelu:
      return Maximum(0, x) + Minimum(0, alpha * std::expm1(x / alpha));
    case UnaryFunction::kSoftplus:
      return Softplus(x);
    case UnaryFunction::kSoftsign:
      return x / (1 + std::abs(x));
    case UnaryFunction::kHardSigmoid:
      return Maximum(0, Minimum(1, alpha * x + beta));
    case UnaryFunction::kHardSwish:
      return x * Maximum(0, Minimum(1, x / 6 + 0.5));
    case UnaryFunction::kSilu:
      return x * Sigmoid(x);
    case UnaryFunction::kMish:
      return x * std::tanh(Softplus(x));
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
      return Sigmoid(x);
    case UnaryFunction::kSoftsign:
      return 1 / ((1 + std::abs(x)) * (1 + std::abs(x)));
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
    // Shifts are computed as products, so they do not wrap.
    case BinaryFunction::kShiftLeft:
      return std::floor(a * std::exp2(b));
    case BinaryFunction::kShiftRight:
      return std::floor(a * std::exp2(-b));
    case BinaryFunction::kAnd:
      return a != 0 && b != 0 ? 1 : 0;
    case BinaryFunction::kOr:
      return a != 0 || b != 0 ? 1 : 0;
    case BinaryFunction::kXor:
      return (a != 0) != (b != 0) ? 1 : 0;
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
      return 0.5 * x * (1 + std::erf(x * kSqrtHalf));
    case Activation::kGeluTanh:
      return 0.5 * x *
             (1 + std::tanh(kSqrtTwoOverPi * (x + kGeluCubic * x * x * x)));
    case Activation::kSigmoid:
      return Sigmoid(x);
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
      return saved * (1 - saved);
    case Activation::kTanh:
      return 1 - saved * saved;
    case Activation::kUnary:
      break;
  }
  return 1;
}

}  // namespace gpupool::engine::reference
