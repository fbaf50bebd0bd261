// The typed attributes of nodes, one small struct for each op family. Plain
// values. Images are N, C, H, W and volumes N, C, D, H, W in logical order,
// whatever their layout in memory.
#pragma once

#include <cstdint>
#include <type_traits>
#include <variant>
#include <vector>

#include "engine/graph/attributes_core.h"
#include "engine/graph/attributes_movement.h"
#include "engine/graph/attributes_optimizers.h"
#include "engine/tensor/shape.h"

namespace gpupool::engine {

// The order of the elements of a 4-D value in memory. Shapes stay N, C, H, W.
enum class Layout : uint8_t {
  kRowMajor,      // N, C, H, W
  kChannelsLast,  // N, H, W, C
};

// Operations that a matmul or convolution applies to its result before it
// stores it: y = activation(product + bias + residual). The node's inputs are
// the two operands, then the bias and the residual if their flags are set.
struct Epilogue {
  bool bias = false;
  bool residual = false;  // same shape as the output
  Activation activation = Activation::kNone;
  UnaryAttributes unary;  // for Activation::kUnary

  friend bool operator==(const Epilogue&, const Epilogue&) = default;
};

// One number for each spatial axis. `d` is 0 for images, which have no depth.
struct Extent {
  int64_t h = 1;
  int64_t w = 1;
  int64_t d = 0;

  int64_t cells() const { return h * w * (d == 0 ? 1 : d); }

  friend bool operator==(const Extent&, const Extent&) = default;
};

// Cells added before and after the data. The constructors with one extent add
// the same count on both sides.
struct Padding {
  Extent begin{0, 0};
  Extent end{0, 0};

  Padding() = default;
  Padding(int64_t h, int64_t w) : begin{h, w}, end{h, w} {}
  explicit Padding(const Extent& both) : begin(both), end(both) {}
  Padding(const Extent& before, const Extent& behind)
      : begin(before), end(behind) {}

  friend bool operator==(const Padding&, const Padding&) = default;
};

// op(A) op(B) of 2-D A and B; the bias is [columns of the result].
struct MatMulAttributes {
  bool transpose_a = false;
  bool transpose_b = false;
  Epilogue epilogue;

  friend bool operator==(const MatMulAttributes&,
                         const MatMulAttributes&) = default;
};

// A convolution of images, or of volumes when the extents have a depth.
struct Conv2dAttributes {
  Extent stride{1, 1};
  Padding padding;
  Extent dilation{1, 1};  // 1: dense kernel
  int64_t groups = 1;
  Epilogue epilogue;

  friend bool operator==(const Conv2dAttributes&,
                         const Conv2dAttributes&) = default;
};

// y = codes of (sum of (x - x_zero) * w + shift) * factor, where the scale of y
// is part of the factor. Sums are exact in 32 bits.
struct QuantizedConv2dAttributes {
  Conv2dAttributes conv;  // of images, without an epilogue
  int x_zero = 0;
  CodeRange codes;

  friend bool operator==(const QuantizedConv2dAttributes&,
                         const QuantizedConv2dAttributes&) = default;
};

struct Conv2dGradAttributes {
  Conv2dAttributes conv;   // the forward node's
  Shape result;            // shape of the gradient: the input's or the weights'
  bool bias_grad = false;  // weight gradient only: a second output [filters]

  friend bool operator==(const Conv2dGradAttributes&,
                         const Conv2dGradAttributes&) = default;
};

// A pool over images, or over volumes when the extents have a depth. Padding is
// never the maximum. An average divides by the window's cells inside the padded
// input, so a window that ceil_mode lets reach beyond it counts fewer.
struct Pool2dAttributes {
  Extent kernel{1, 1};
  Extent stride{1, 1};
  Padding padding;  // on each side smaller than the window's reach
  Extent dilation{1, 1};
  // Lets the last window reach beyond the padded input. It must still start
  // within the input or the padding before it.
  bool ceil_mode = false;
  bool exclude_padding = false;  // average only: divides by cells of the input
  bool with_argmax = false;      // max only: the second output exists

  friend bool operator==(const Pool2dAttributes&,
                         const Pool2dAttributes&) = default;
};

struct Pool2dGradAttributes {
  Pool2dAttributes pool;  // the forward node's
  Shape input;            // the forward input's

  friend bool operator==(const Pool2dGradAttributes&,
                         const Pool2dGradAttributes&) = default;
};

// Batch norm and layer norm, forward and gradient.
struct NormAttributes {
  double epsilon = 1e-5;
  bool with_statistics = false;  // layer norm: outputs mean and variance

  friend bool operator==(const NormAttributes&,
                         const NormAttributes&) = default;
};

struct BatchNormUpdateAttributes {
  double momentum = 0.1;  // weight of the new value
  int64_t count = 2;      // elements per channel, at least 2

  friend bool operator==(const BatchNormUpdateAttributes&,
                         const BatchNormUpdateAttributes&) = default;
};

struct GeluAttributes {
  bool tanh_approximation = false;

  friend bool operator==(const GeluAttributes&,
                         const GeluAttributes&) = default;
};

// Element i (row-major) is kept iff u_i >= probability. Kept elements are
// multiplied by 1 / (1 - probability). u_i is PhiloxUniformFloat(word i % 4) of
//   PhiloxBlock(seed, stream, step << 32 | i / 4)  (engine/base/philox.h).
struct DropoutAttributes {
  double probability = 0.5;
  uint64_t stream = 0;  // distinct for each dropout of a model

  friend bool operator==(const DropoutAttributes&,
                         const DropoutAttributes&) = default;
};

// The reduction of the rows' losses. kSum divided by the number of rows gives
// kMean.
enum class Reduction : uint8_t { kMean, kSum };

struct LossAttributes {
  Reduction reduction = Reduction::kMean;
  double label_smoothing = 0;  // cross entropy only
  // Cross entropy: rows with this label count neither in the sum nor in the
  // mean's divisor. Real labels are never negative.
  int64_t ignore_label = -100;

  friend bool operator==(const LossAttributes&,
                         const LossAttributes&) = default;
};

struct AllReduceAttributes {
  int ranks = 1;              // ranks of the job; >= 1
  std::vector<Shape> shapes;  // kAllReduceWait: the outputs' shapes; else empty

  friend bool operator==(const AllReduceAttributes&,
                         const AllReduceAttributes&) = default;
};

struct EmaAttributes {
  double decay = 0.999;  // average' = decay * average + (1 - decay) * p

  friend bool operator==(const EmaAttributes&, const EmaAttributes&) = default;
};

struct ShapeAttributes {
  Shape shape;

  friend bool operator==(const ShapeAttributes&,
                         const ShapeAttributes&) = default;
};

struct LayoutAttributes {
  Layout layout = Layout::kRowMajor;  // the output's

  friend bool operator==(const LayoutAttributes&,
                         const LayoutAttributes&) = default;
};

// One step of a fused elementwise expression: an elementwise op and its
// operands. Operand i below the node's input count is that input. Operand
// (input count + j) is the result of step j, which must come earlier.
enum class Op : uint8_t;  // engine/graph/ops.h

struct FusedStep {
  Op op;  // kAdd, kUnary, kBinary, kWhere, an activation or its gradient, ...
  std::variant<std::monostate, UnaryAttributes, BinaryAttributes,
               GeluAttributes, CastAttributes>
      attributes;  // the attributes of the op
  std::vector<int> operands;

  friend bool operator==(const FusedStep&, const FusedStep&) = default;
};

struct FusedAttributes {
  std::vector<FusedStep> steps;  // at least one
  std::vector<int> results;      // the operand that each output returns
  Shape shape;                   // shape of all outputs; inputs broadcast to it

  friend bool operator==(const FusedAttributes&,
                         const FusedAttributes&) = default;
};

using NoAttributes = std::monostate;

// Distinct<std::variant<A>, B, A, B>::Type is std::variant<A, B>.
template <typename Variant, typename... More>
struct Distinct {
  using Type = Variant;
};
template <typename... Kept, typename First, typename... More>
struct Distinct<std::variant<Kept...>, First, More...>
    : std::conditional_t<(std::is_same_v<Kept, First> || ...),
                         Distinct<std::variant<Kept...>, More...>,
                         Distinct<std::variant<Kept..., First>, More...>> {};

// The alternatives are the structs that the rows of the op table name.
using AnyAttributes = Distinct<std::variant<NoAttributes>
#define GPUPOOL_OP(op, name, inputs, outputs, attributes, ...) , attributes
#include "engine/graph/op_table.inc"
                               >::Type;

// The attributes of a node: one of the alternatives, a std::variant in every
// respect. Its copies are compiled once, in attributes.cc: each of them is code
// for all alternatives, which every file with a graph would compile otherwise.
class Attributes : public AnyAttributes {
 public:
  using AnyAttributes::AnyAttributes;
  using AnyAttributes::operator=;

  Attributes();
  Attributes(const Attributes& other);
  Attributes(Attributes&& other) noexcept;
  Attributes& operator=(const Attributes& other);
  Attributes& operator=(Attributes&& other) noexcept;
  ~Attributes();

  friend bool operator==(const Attributes& a, const Attributes& b);
};

}  // namespace gpupool::engine
