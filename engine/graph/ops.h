// The op table: everything that passes, planners and back ends need to know
// about an op. A new op needs one row here, one shape rule, one reference
// kernel and, when differentiable, one gradient rule. All functions are pure.
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

// Each line shows inputs -> outputs. An attribute tells whether [x], which is
// optional, exists. C is dimension 1 of x, and per-channel values are [C].
// Scalars have rank 0.
enum class Op : uint8_t {
  // Views.
  kReshape,        // x -> y; ShapeAttributes; the bytes stay
  kLayoutConvert,  // x -> y; LayoutAttributes; 4-D
  // Elementwise, with broadcasting for two or more inputs.
  kUnary,   // x -> y; UnaryAttributes
  kBinary,  // a, b -> y; BinaryAttributes
  kWhere,   // condition bool, a, b -> condition ? a : b
  kCast,    // x -> y; CastAttributes
  kFused,   // x... -> y...; FusedAttributes; made by passes only
  // Elementwise.
  kAdd,         // a, b -> a + b; same shape, floating
  kRelu,        // x -> y
  kGelu,        // x -> y; GeluAttributes
  kSigmoid,     // x -> y
  kTanh,        // x -> y
  kScaleShift,  // x [N, f...], scale [f...], shift [f...] -> x*scale + shift
  kDropout,     // x, seed int64 [], step int64 [] -> y; DropoutAttributes.
                // Its gradient is the same node applied to dy.
  // Products. The inputs of the epilogue follow the operands.
  kMatMul,       // a, b, [bias], [residual] -> y; MatMulAttributes
  kConv2d,       // x, w [O, I/groups, kh, kw], [bias], [residual] -> y
  kBatchMatMul,  // a [..., m, k], b [..., k, n] -> [..., m, n];
                 // BatchMatMulAttributes
  kAttention,    // q [B, H, T, D], k [B, H, S, D], v [B, H, S, E], [mask
                 // broadcast to B, H, T, S] -> y [B, H, T, E], [lse]: log of
                 // the sum of exp [B, H, T], >= 32 bits; AttentionAttributes
  // Reductions.
  kReduce,     // x -> y; ReduceAttributes
  kArgReduce,  // x -> int64 positions; ArgReduceAttributes
  kCumSum,     // x -> y; CumSumAttributes
  // Movement: any element type, no arithmetic.
  kBroadcast,  // x -> y of ShapeAttributes, as in NumPy
  kTranspose,  // x -> y; TransposeAttributes
  kSlice,      // x -> y; SliceAttributes
  kPad,        // x -> y; PadAttributes
  kConcat,     // x... -> y; AxisAttributes
  // Indexing. Indices are int32 or int64; negative ones count from the end. An
  // index outside the input is INVALID_ARGUMENT when the program runs.
  kGather,           // x, indices -> x's axis replaced by the indices' shape;
                     // AxisAttributes
  kGatherElements,   // x, indices -> y of the indices' shape; AxisAttributes
  kGatherNd,         // x, indices [..., n] -> y; GatherNdAttributes
  kScatterElements,  // x, indices, updates -> y; ScatterAttributes
  kScatterNd,        // x, indices [..., n], updates -> y; ScatterAttributes
  kTopK,             // x -> values, int64 indices; TopKAttributes
  kRandom,           // seed int64 [], step int64 [] -> y; RandomAttributes
  // Images.
  kResize,  // x -> y; ResizeAttributes
  kLrn,     // x [N, C, ...] -> y; LrnAttributes
  // Pools.
  kMaxPool,        // x -> y, [argmax]: position in the window, kh * width +
                   // kw, of the first maximum; uint8 when the window has at
                   // most 256 cells, else int32
  kAvgPool,        // x -> y
  kGlobalAvgPool,  // x [N, C, ...] -> [N, C]
  // Normalisation, with biased variances. If x has 16 bits, the other inputs
  // may be float32.
  kBatchNormTraining,   // x, gamma, beta -> y, mean, variance
  kBatchNormUpdate,     // running_mean, running_variance, mean, variance ->
                        // the new running ones (variance made unbiased)
  kBatchNormInference,  // x, gamma, beta, mean, variance -> y
  kLayerNorm,           // x, gamma [last], beta [last] -> y, [mean, variance]
                        // of shape [product of the other dimensions]
  kSoftmax,             // x -> y over the last dimension
  kLogSoftmax,          // x -> y over the last dimension
  // Losses (scalars) and evaluation. With row_count (int64 []) only the first
  // row_count rows count.
  kCrossEntropy,      // logits [N, C], labels int32|int64 [N], [row_count]
  kMeanSquaredError,  // prediction [N, ...], target, [row_count]
  kCorrectCount,      // logits [N, C], labels [N], [row_count] -> int64 []
  // Gradients. Gradients of losses assume that the loss's own gradient is 1.
  kReluGrad,               // dy, y -> dx
  kGeluGrad,               // dy, x -> dx; GeluAttributes
  kSigmoidGrad,            // dy, y -> dx
  kTanhGrad,               // dy, y -> dx
  kUnaryGrad,              // dy, x -> dx; UnaryAttributes of the forward node
  kSliceGrad,              // dy -> dx; SliceGradAttributes
  kPadGrad,                // dy -> dx; PadAttributes of the forward node
  kGatherGrad,             // dy, indices -> dx; GatherGradAttributes
  kResizeGrad,             // dy -> dx; ResizeGradAttributes
  kLrnGrad,                // dy, x -> dx; LrnAttributes
  kLogSoftmaxGrad,         // dy, y -> dx
  kAttentionGrad,          // dy, q, k, v, y, lse, [mask] -> dq, dk, dv;
                           // AttentionAttributes
  kColumnSum,              // x [m, n] -> [n]
  kConv2dInputGrad,        // dy, w -> dx; Conv2dGradAttributes
  kConv2dWeightGrad,       // dy, x -> dw, [db]; Conv2dGradAttributes
  kMaxPoolGrad,            // dy, argmax -> dx; Pool2dGradAttributes
  kAvgPoolGrad,            // dy -> dx; Pool2dGradAttributes
  kGlobalAvgPoolGrad,      // dy -> dx; ShapeAttributes: of x
  kBatchNormTrainingGrad,  // dy, x, gamma, mean, variance ->
                           // dx, dgamma, dbeta
  kLayerNormGrad,          // dy, x, gamma, mean, variance ->
                           // dx, dgamma, dbeta
  kSoftmaxGrad,            // dy, y -> dx
  kCrossEntropyGrad,       // logits, labels -> dlogits; LossAttributes
  kMeanSquaredErrorGrad,   // prediction, target -> dprediction
  // Step tail. learning_rate is float64 []; step is int64 [] and counts from 1.
  // An optimizer with a clip (float32 []) multiplies gradients by it. If the
  // clip is NaN, the optimizer changes nothing.
  kGlobalNorm,   // g... -> float32 [], the Euclidean norm over all inputs
  kSgdStep,      // p, g, learning_rate, step, [velocity], [clip] ->
                 // p', [velocity']
  kAdamStep,     // p, g, learning_rate, step, m, v, [clip] -> p', m', v'
  kRmspropStep,  // p, g, learning_rate, step, v, [mean], [momentum],
                 // [clip] -> p', v', [mean'], [momentum']
  kAdagradStep,  // p, g, learning_rate, step, s, [clip] -> p', s'
  kLionStep,     // p, g, learning_rate, step, m, [clip] -> p', m'
  kEmaUpdate,    // average, p -> average'; EmaAttributes
  // Between the ranks of a job; AllReduceAttributes. All ranks run the same
  // nodes in the same order.
  kAllReduceStart,  // g... float32 -> flat [all their elements], which is
                    // undefined until the wait: the sum is on its way
  kAllReduceWait,   // flat... -> means over the ranks, of the attribute's
                    // shapes, in the order of the flats' elements
  // Load stage.
  kFoldBatchNorm,  // w [O, ...], gamma, beta, mean, variance, [bias] ->
                   // w', bias'; NormAttributes
};
inline constexpr int kOpCount = static_cast<int>(Op::kFoldBatchNorm) + 1;

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

struct OpInfo {
  Op op;
  absl::string_view name;  // "conv2d"
  int min_inputs;
  int max_inputs;  // -1: no limit
  int min_outputs;
  int max_outputs;
  LayoutRule layout;
  // A bit mask of the inputs whose bytes output 0 may overwrite.
  uint32_t in_place_inputs;
  bool differentiable;
  bool pure;  // same inputs, same outputs: may be folded and merged
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

// Returns the floating-point operations of a node; a multiply-add counts as
// two. Data movement counts 0. Saturates instead of overflowing.
uint64_t Flops(Op op, const Attributes& attributes,
               absl::Span<const TensorType> inputs,
               absl::Span<const TensorType> outputs);

}  // namespace gpupool::engine
