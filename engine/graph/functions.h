// The functions that attributes choose from. This header has names only, so
// code for GPUs can include it.
#pragma once

#include <cstdint>

namespace gpupool::engine {

// y = f(x) for each element. alpha and beta are 0 where not mentioned.
enum class UnaryFunction : uint8_t {
  // Floating-point and integer numbers.
  kAbs,
  kNegate,
  kSign,
  kClip,  // min(max(x, alpha), beta)
  // Floating-point numbers.
  kExp,
  kLog,
  kSqrt,
  kReciprocal,
  kFloor,
  kCeil,
  kRound,  // half to even
  kSin,
  kCos,
  kTan,
  kAsin,
  kAcos,
  kAtan,
  kSinh,
  kCosh,
  kAsinh,
  kAcosh,
  kAtanh,
  kErf,
  kLeakyRelu,        // x < 0 ? alpha * x : x
  kElu,              // x < 0 ? alpha * (exp(x) - 1) : x
  kSelu,             // beta * (x > 0 ? x : alpha * (exp(x) - 1))
  kCelu,             // max(0, x) + min(0, alpha * (exp(x / alpha) - 1))
  kSoftplus,         // log(1 + exp(x))
  kSoftsign,         // x / (1 + |x|)
  kHardSigmoid,      // max(0, min(1, alpha * x + beta))
  kHardSwish,        // x * max(0, min(1, x / 6 + 1 / 2))
  kSilu,             // x / (1 + exp(-x))
  kMish,             // x * tanh(log(1 + exp(x)))
  kShrink,           // x < -alpha: x + beta; x > alpha: x - beta; else 0
  kThresholdedRelu,  // x > alpha ? x : 0
  // Floating-point numbers to bool.
  kIsNan,
  kIsInf,  // alpha: 0 both, 1 only +inf, -1 only -inf
  // Bool to bool.
  kNot,
};
inline constexpr int kUnaryFunctionCount =
    static_cast<int>(UnaryFunction::kNot) + 1;

// y = f(a, b). The inputs broadcast against each other as in NumPy: shapes are
// aligned at their last axes, and an axis of 1 repeats.
enum class BinaryFunction : uint8_t {
  // Floating-point and integer numbers; the result has the same type.
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,  // integers: towards zero
  kPower,
  kMinimum,
  kMaximum,
  kModulo,     // the sign of b, as in Python
  kRemainder,  // the sign of a, as fmod
  // Integers.
  kShiftLeft,
  kShiftRight,  // rounds down
  // Bool; integers bit by bit, as two's complement.
  kAnd,
  kOr,
  kXor,
  // Any type to bool.
  kEqual,
  kLess,
  kLessOrEqual,
  kGreater,
  kGreaterOrEqual,
};
inline constexpr int kBinaryFunctionCount =
    static_cast<int>(BinaryFunction::kGreaterOrEqual) + 1;

enum class Activation : uint8_t {
  kNone,
  kRelu,
  kGelu,      // x/2 * (1 + erf(x/sqrt(2)))
  kGeluTanh,  // x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3)))
  kSigmoid,
  kTanh,
  kUnary,  // Epilogue::unary: clip, leaky ReLU, SiLU or hard swish
};

enum class ReduceFunction : uint8_t { kSum, kMean, kMax, kMin, kProduct };

enum class PadMode : uint8_t {
  kConstant,
  kReflect,  // without repeating the edge: 3 2 | 1 2 3 | 2 1
  kEdge,     // repeats the edge
};

enum class ScatterReduction : uint8_t {
  kNone,  // the last update wins
  kAdd,
  kMultiply,
  kMinimum,
  kMaximum,
};

}  // namespace gpupool::engine
