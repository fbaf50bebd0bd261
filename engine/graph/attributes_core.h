// Attributes of the core ops that compute: elementwise functions, reductions,
// products. Plain values. Axes count from 0 and are never negative; the builder
// of a node normalises them.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/graph/functions.h"
#include "engine/tensor/dtype.h"
#include "engine/tensor/shape.h"

namespace gpupool::engine {

struct UnaryAttributes {
  UnaryFunction function = UnaryFunction::kAbs;
  double alpha = 0;
  double beta = 0;

  friend bool operator==(const UnaryAttributes&,
                         const UnaryAttributes&) = default;
};

struct BinaryAttributes {
  BinaryFunction function = BinaryFunction::kAdd;

  friend bool operator==(const BinaryAttributes&,
                         const BinaryAttributes&) = default;
};

// Casts to integers round towards zero; casts to bool give x != 0. Values out
// of range are undefined, except that infinities stay in floating types. The
// importer adds saturation where ONNX wants it.
struct CastAttributes {
  DType dtype = DType::kFloat32;

  friend bool operator==(const CastAttributes&,
                         const CastAttributes&) = default;
};

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
  bool last = false;  // takes the last of equal elements, not the first

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
  double scale = 1;  // factor of the product

  friend bool operator==(const BatchMatMulAttributes&,
                         const BatchMatMulAttributes&) = default;
};

// Codes of 4 or 8 bits, packed in bytes with the low half first. Each block of
// codes of a column shares a scale and a zero point.
struct BlockedMatMulAttributes {
  int bits = 4;
  bool with_zeros = false;  // otherwise all zero points are 2^(bits - 1)

  friend bool operator==(const BlockedMatMulAttributes&,
                         const BlockedMatMulAttributes&) = default;
};

// The codes of a quantised value: whole numbers in [low, high], which `dtype`
// (uint8 or int8) holds. A real number x has the code round(x / scale) + zero,
// clamped. Halves are rounded to the even neighbour, and NaN has the code low.
struct CodeRange {
  DType dtype = DType::kUint8;
  int zero = 0;  // of the type, but perhaps outside of [low, high]
  int low = 0;
  int high = 255;

  friend bool operator==(const CodeRange&, const CodeRange&) = default;
};

struct QuantizeAttributes {
  double scale = 1;  // positive and finite, as in the structs below
  CodeRange codes;

  friend bool operator==(const QuantizeAttributes&,
                         const QuantizeAttributes&) = default;
};

// A code c stands for (c - zero) * scale.
struct DequantizeAttributes {
  double scale = 1;
  int zero = 0;

  friend bool operator==(const DequantizeAttributes&,
                         const DequantizeAttributes&) = default;
};

// The codes of the sum of two values, each of which has its own codes.
struct QuantizedAddAttributes {
  DequantizeAttributes a, b;
  QuantizeAttributes sum;

  friend bool operator==(const QuantizedAddAttributes&,
                         const QuantizedAddAttributes&) = default;
};

// The most products in a sum of a quantised convolution. Each is at most 255 *
// 128, so that 65,536 of them fit 32 bits.
inline constexpr int64_t kMaxCodeProducts = 65536;

// softmax(scale * q k^T + mask) v over heads (Vaswani et al. 2017, arXiv
// 1706.03762, section 3.2.1). A query that sees no key (all its scores are
// -infinity) gives zeros, and its lse is -infinity.
struct AttentionAttributes {
  double scale = 1;
  bool causal = false;    // query i sees key j iff j <= i + keys - queries
  bool with_lse = false;  // the second output exists; training needs it

  friend bool operator==(const AttentionAttributes&,
                         const AttentionAttributes&) = default;
};

// y = x / (bias + alpha / size * s)^beta, where s is the sum of squares over
// `size` channels around each (Krizhevsky et al. 2012, section 3.3).
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

// Element i comes from PhiloxBlock(seed, stream, step << 32 | i / 4), as in
// dropout. Uniform numbers use word i % 4. Normal ones come in pairs from words
// 0 and 1, and 2 and 3, as u and v: sqrt(-2 ln(1 - u)) times cos(2 pi v) for
// the first and sin(2 pi v) for the second (Box and Muller 1958). The output is
// float32.
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
