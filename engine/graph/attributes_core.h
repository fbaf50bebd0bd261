// Attributes of the core ops that compute: elementwise functions, reductions,
// products. Plain values. Axes are counted from 0 and are never negative:
// whoever builds a node normalises them.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/tensor/dtype.h"
#include "engine/tensor/shape.h"

namespace gpupool::engine {

// y = f(x), element by element. alpha and beta are 0 where not mentioned.
enum class UnaryFunction : uint8_t {
  // Floating and integer numbers.
  kAbs,
  kNegate,
  kSign,
  kClip,  // min(max(x, alpha), beta)
  // Floating numbers.
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
  // Floating numbers to bool.
  kIsNan,
  kIsInf,  // alpha: 0 both, 1 only +inf, -1 only -inf
  // Bool to bool.
  kNot,
};
inline constexpr int kUnaryFunctionCount =
    static_cast<int>(UnaryFunction::kNot) + 1;

struct UnaryAttributes {
  UnaryFunction function = UnaryFunction::kAbs;
  double alpha = 0;
  double beta = 0;

  friend bool operator==(const UnaryAttributes&,
                         const UnaryAttributes&) = default;
};

// y = f(a, b) with the inputs broadcast against each other as in NumPy: shapes
// are aligned at their last axes, and an axis of 1 repeats.
enum class BinaryFunction : uint8_t {
  // Floating and integer numbers, the same type out.
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
  // Bool.
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

struct BinaryAttributes {
  BinaryFunction function = BinaryFunction::kAdd;

  friend bool operator==(const BinaryAttributes&,
                         const BinaryAttributes&) = default;
};

// To integers: towards zero. To bool: x != 0. Out of range: undefined but for
// floating infinities, which stay. Saturating is the importer's business.
struct CastAttributes {
  DType dtype = DType::kFloat32;

  friend bool operator==(const CastAttributes&,
                         const CastAttributes&) = default;
};

enum class ReduceFunction : uint8_t { kSum, kMean, kMax, kMin, kProduct };

struct ReduceAttributes {
  ReduceFunction function = ReduceFunction::kSum;
  std::vector<int> axes;  // rising, distinct, at least one
  bool keep_dims = false;

  friend bool operator==(const ReduceAttributes&,
                         const ReduceAttributes&) = default;
};

struct ArgReduceAttributes {
  bool maximum = true;
  int axis = 0;
  bool keep_dims = false;
  bool last = false;  // among equals the last one, not the first

  friend bool operator==(const ArgReduceAttributes&,
                         const ArgReduceAttributes&) = default;
};

struct CumSumAttributes {
  int axis = 0;
  bool exclusive = false;  // without the element itself
  bool reverse = false;    // from the end

  friend bool operator==(const CumSumAttributes&,
                         const CumSumAttributes&) = default;
};

// op(A) op(B) over the last two axes; leading axes broadcast as in NumPy.
struct BatchMatMulAttributes {
  bool transpose_a = false;
  bool transpose_b = false;
  double scale = 1;  // of the product

  friend bool operator==(const BatchMatMulAttributes&,
                         const BatchMatMulAttributes&) = default;
};

// softmax(scale * q k^T + mask) v over heads
// (Vaswani et al. 2017, arXiv 1706.03762, section 3.2.1). A query that sees no
// key (all its scores are -infinity) gives zeros, and its lse is -infinity.
struct AttentionAttributes {
  double scale = 1;
  bool causal = false;  // key j is seen by query i iff j <= i + keys - queries
  bool with_lse = false;  // the second output exists; training needs it

  friend bool operator==(const AttentionAttributes&,
                         const AttentionAttributes&) = default;
};

// y = x / (bias + alpha / size * s)^beta, s the sum of squares over `size`
// channels around each (Krizhevsky et al. 2012, section 3.3).
struct LrnAttributes {
  double alpha = 1e-4;
  double beta = 0.75;
  double bias = 1;
  int64_t size = 5;

  friend bool operator==(const LrnAttributes&, const LrnAttributes&) = default;
};

enum class RandomDistribution : uint8_t {
  kUniform,  // low <= x < high
  kNormal,   // mean, deviation
};

// Element i stems from PhiloxBlock(seed, stream, step << 32 | i / 4), as in
// dropout: uniform numbers from word i % 4; normal ones in pairs from words 0
// and 1, 2 and 3, u and v: sqrt(-2 ln(1 - u)) times cos(2 pi v) for the first,
// sin(2 pi v) for the second (Box and Muller 1958). The output is float32.
struct RandomAttributes {
  RandomDistribution distribution = RandomDistribution::kUniform;
  double first = 0;   // low or mean
  double second = 1;  // high or deviation
  uint64_t stream = 0;
  Shape shape;

  friend bool operator==(const RandomAttributes&,
                         const RandomAttributes&) = default;
};

}  // namespace gpupool::engine
