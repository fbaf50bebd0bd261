// The ops, and everything that passes, planners and back ends need to know
// about them. A new op needs one row in op_table.inc, one shape rule, one
// reference kernel and, when differentiable, one gradient rule. All functions
// are pure.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/graph/attributes.h"
#include "engine/tensor/dtype.h"
#include "engine/tensor/shape.h"

namespace gpupool::engine {

enum class Op : uint8_t {
#define GPUPOOL_OP(op, ...) k##op,
#include "engine/graph/op_table.inc"
};
inline constexpr int kOpCount = 0
#define GPUPOOL_OP(...) +1
#include "engine/graph/op_table.inc"
    ;

struct TensorType {
  DType dtype = DType::kFloat32;
  Shape shape;

  friend bool operator==(const TensorType&, const TensorType&) = default;
};
using TensorTypes = std::vector<TensorType>;

// The memory layouts that an op allows for 4-D inputs and outputs.
enum class LayoutRule : uint8_t {
  kRowMajorOnly,
  kSame,     // any layout, the same for all 4-D data inputs and outputs;
             // weights (input 1 of convolutions, weight gradients) stay
             // row-major
  kConvert,  // kLayoutConvert
};

// The width of an op when a model trains in 16 bits
// (engine/passes/formats/autocast.h).
enum class AutocastRule : uint8_t {
  kLow,     // it runs in 16 bits
  kWide,    // it runs in 32 bits
  kFollow,  // it runs in the type of its operands
};

// A number of inputs or outputs.
struct Arity {
  int least;
  int most;  // -1: no limit
};

// The columns of the op table that are plain facts (op_table.inc).
struct OpInfo {
  Op op;
  absl::string_view name;  // "conv2d"
  Arity inputs;
  Arity outputs;
  LayoutRule layout;
  // A bit mask of the inputs whose bytes output 0 may overwrite.
  uint32_t in_place_inputs;
  bool pure;         // same inputs, same outputs: may be folded and merged
  bool takes_empty;  // inputs without elements
  bool fusable;      // may be a step of kFused
  AutocastRule autocast;
  bool differentiable;
};

const OpInfo& Info(Op op);
inline absl::string_view OpName(Op op) { return Info(op).name; }

// Returns the types of the outputs. INVALID_ARGUMENT names the op, the
// offending shapes or types and the rule.
absl::StatusOr<TensorTypes> InferTypes(Op op, const Attributes& attributes,
                                       absl::Span<const TensorType> inputs);

// Return whether a 4-D input or output holds convolution weights, which stay
// row-major (logical O, I, kh, kw) under LayoutRule::kSame.
bool IsWeightInput(Op op, size_t input);
bool IsWeightOutput(Op op, size_t output);

// The optimizer among the attributes; aborts where there is none.
OptimizerAttributes OptimizerOf(const Attributes& attributes);
// The op whose nodes carry the attributes of this optimizer.
Op StepOf(const OptimizerAttributes& optimizer);

// Floating point operations of a node; a multiply-add counts two. Data
// movement counts 0. Saturates instead of overflowing.
uint64_t Flops(Op op, const Attributes& attributes,
               absl::Span<const TensorType> inputs,
               absl::Span<const TensorType> outputs);

}  // namespace gpupool::engine
