// Attributes of the core ops: elementwise functions, reductions, movement and
// indexing. Plain values. Axes are counted from 0 and are never negative:
// whoever builds a node normalises them.
#pragma once

#include <cstdint>
#include <variant>
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
  // Unsigned integers.
  kShiftLeft,
  kShiftRight,
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

// Output axis i is input axis permutation[i].
struct TransposeAttributes {
  std::vector<int> permutation;

  friend bool operator==(const TransposeAttributes&,
                         const TransposeAttributes&) = default;
};

// Output cell i of an axis is input cell start + i * step; all of them lie
// inside. One entry per axis.
struct SliceAttributes {
  std::vector<int64_t> starts;
  std::vector<int64_t> steps;  // not 0; negative walks backwards
  std::vector<int64_t> sizes;  // of the output

  friend bool operator==(const SliceAttributes&,
                         const SliceAttributes&) = default;
};

struct SliceGradAttributes {
  SliceAttributes slice;  // of the forward node
  Shape input;            // of the forward node

  friend bool operator==(const SliceGradAttributes&,
                         const SliceGradAttributes&) = default;
};

enum class PadMode : uint8_t {
  kConstant,
  kReflect,  // without repeating the edge: 3 2 | 1 2 3 | 2 1
  kEdge,     // repeats the edge
};

// One entry per axis, each at least 0.
struct PadAttributes {
  std::vector<int64_t> before;
  std::vector<int64_t> after;
  PadMode mode = PadMode::kConstant;
  double value = 0;  // kConstant

  friend bool operator==(const PadAttributes&, const PadAttributes&) = default;
};

struct AxisAttributes {
  int axis = 0;

  friend bool operator==(const AxisAttributes&,
                         const AxisAttributes&) = default;
};

// Gradient of gather: where the indices point to, in an output of this shape.
struct GatherGradAttributes {
  int axis = 0;
  Shape input;  // of the forward node

  friend bool operator==(const GatherGradAttributes&,
                         const GatherGradAttributes&) = default;
};

struct GatherNdAttributes {
  int batch_dims = 0;

  friend bool operator==(const GatherNdAttributes&,
                         const GatherNdAttributes&) = default;
};

enum class ScatterReduction : uint8_t {
  kNone,  // the last update wins
  kAdd,
  kMultiply,
  kMinimum,
  kMaximum,
};

struct ScatterAttributes {
  int axis = 0;  // kScatterElements only
  ScatterReduction reduction = ScatterReduction::kNone;

  friend bool operator==(const ScatterAttributes&,
                         const ScatterAttributes&) = default;
};

struct TopKAttributes {
  int axis = 0;
  int64_t k = 1;
  bool largest = true;
  bool sorted = true;

  friend bool operator==(const TopKAttributes&,
                         const TopKAttributes&) = default;
};

// A separable linear map: along axis i, output cell o is the sum over t of
// weights[o * taps + t] * input cell indices[o * taps + t]. Whoever builds the
// node works out the table from mode, scale and coordinate transformation.
struct ResizeAxis {
  int axis = 0;
  int64_t size = 1;  // of the output
  int taps = 1;
  std::vector<int64_t> indices;  // size * taps, inside the input
  std::vector<double> weights;

  friend bool operator==(const ResizeAxis&, const ResizeAxis&) = default;
};

struct ResizeAttributes {
  std::vector<ResizeAxis> axes;  // distinct; other axes stay

  friend bool operator==(const ResizeAttributes&,
                         const ResizeAttributes&) = default;
};

struct ResizeGradAttributes {
  ResizeAttributes resize;  // of the forward node
  Shape input;              // of the forward node

  friend bool operator==(const ResizeGradAttributes&,
                         const ResizeGradAttributes&) = default;
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
