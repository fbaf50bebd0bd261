// FLOPs of every op: the column of the op table that needs a function. Sums and
// products saturate, because shapes of untrusted models may overflow.
#include <limits>
#include <optional>

#include "engine/graph/ops.h"

namespace gpupool::engine {
namespace {

uint64_t Multiply(uint64_t a, uint64_t b) {
  uint64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) {
    return std::numeric_limits<uint64_t>::max();
  }
  return product;
}

uint64_t Add(uint64_t a, uint64_t b) {
  uint64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) {
    return std::numeric_limits<uint64_t>::max();
  }
  return sum;
}

uint64_t Elements(const TensorType& type) {
  return static_cast<uint64_t>(type.shape.elements());
}

// Returns two FLOPs for each output element and weight of its filter.
uint64_t ConvFlops(const TensorType& y, const Shape& w) {
  const auto per_output = static_cast<uint64_t>(w.elements() / w[0]);
  return Multiply(Multiply(2, Elements(y)), per_output);
}

uint64_t MatMulFlops(const MatMulAttributes& matmul, const Shape& a,
                     const TensorType& y) {
  const auto inner = static_cast<uint64_t>(a[matmul.transpose_a ? 0 : 1]);
  return Multiply(Multiply(2, Elements(y)), inner);
}

// Returns one FLOP for each cell of each window.
uint64_t WindowFlops(const Pool2dAttributes& pool, const TensorType& y) {
  return Multiply(Elements(y), static_cast<uint64_t>(pool.kernel.cells()));
}

uint64_t EpilogueFlops(const Epilogue& epilogue, const TensorType& y) {
  const uint64_t per_element = static_cast<uint64_t>(epilogue.bias) +
                               static_cast<uint64_t>(epilogue.residual) +
                               (epilogue.activation != Activation::kNone);
  return Multiply(Elements(y), per_element);
}

// Returns the FLOPs for each element of the first input, counted in the formula
// of the op.
uint64_t PerElement(Op op) {
  switch (op) {
    case Op::kReshape:
    case Op::kLayoutConvert:
    case Op::kMaxPoolGrad:
    case Op::kCast:
    case Op::kBroadcast:
    case Op::kTranspose:
    case Op::kSlice:
    case Op::kSliceGrad:
    case Op::kPad:
    case Op::kPadGrad:
    case Op::kConcat:
    case Op::kGather:
    case Op::kGatherElements:
    case Op::kGatherNd:
      return 0;
    case Op::kScaleShift:
    case Op::kDropout:
    case Op::kBatchNormInference:
    case Op::kGlobalNorm:
    case Op::kFoldBatchNorm:
    case Op::kUnaryGrad:
      return 2;
    case Op::kEmaUpdate:
    case Op::kMeanSquaredError:
    case Op::kMeanSquaredErrorGrad:
      return 3;
    case Op::kSoftmax:
    case Op::kSoftmaxGrad:
    case Op::kLogSoftmax:
    case Op::kLogSoftmaxGrad:
    case Op::kCrossEntropy:
    case Op::kCrossEntropyGrad:
    case Op::kSgdStep:
      return 4;
    case Op::kBatchNormTraining:
    case Op::kLayerNorm:
    case Op::kGelu:
    case Op::kRmspropStep:
    case Op::kAdagradStep:
    case Op::kLionStep:
      return 8;
    case Op::kBatchNormTrainingGrad:
    case Op::kLayerNormGrad:
    case Op::kGeluGrad:
    case Op::kAdamStep:
      return 12;
    default:
      return 1;
  }
}

uint64_t FusedFlops(const FusedAttributes& fused) {
  uint64_t per_element = 0;
  for (const FusedStep& step : fused.steps) {
    per_element = Add(per_element, PerElement(step.op));
  }
  return Multiply(static_cast<uint64_t>(fused.shape.elements()), per_element);
}

uint64_t BatchMatMulFlops(const BatchMatMulAttributes& matmul, const Shape& a,
                          const TensorType& y) {
  const int axis = a.rank() - (matmul.transpose_a ? 2 : 1);
  const auto inner = static_cast<uint64_t>(a[axis]);
  return Multiply(Elements(y), 2 * inner + (matmul.scale != 1));
}

// Counts one pass for each axis. Each pass reads the result of the one before.
uint64_t ResizeFlops(const ResizeAttributes& resize, const Shape& input) {
  uint64_t total = 0;
  auto elements = static_cast<uint64_t>(input.elements());
  for (const ResizeAxis& axis : resize.axes) {
    if (input[axis.axis] == 0) return 0;
    elements = Multiply(elements / static_cast<uint64_t>(input[axis.axis]),
                        static_cast<uint64_t>(axis.size));
    total =
        Add(total, Multiply(elements, 2 * static_cast<uint64_t>(axis.taps)));
  }
  return total;
}

// Counts B * H * T * S scores for q [B, H, T, D], k [B, H, S, D] and v [B, H,
// S, E]. Each score costs a softmax, `by_d` products of D and `by_e` of E
// numbers.
uint64_t AttentionFlops(absl::Span<const TensorType> qkv, uint64_t by_d,
                        uint64_t by_e) {
  const auto d = static_cast<uint64_t>(qkv[0].shape[3]);
  const auto e = static_cast<uint64_t>(qkv[2].shape[3]);
  const auto keys = static_cast<uint64_t>(qkv[1].shape[2]);
  const auto queries = static_cast<uint64_t>(qkv[0].shape[0] * qkv[0].shape[1] *
                                             qkv[0].shape[2]);
  return Multiply(Multiply(queries, keys), 4 + 2 * (by_d * d + by_e * e));
}

// Returns the FLOPs of ops that cost by their outputs or by an attribute.
std::optional<uint64_t> CoreFlops(Op op, const Attributes& attributes,
                                  absl::Span<const TensorType> inputs,
                                  absl::Span<const TensorType> outputs) {
  switch (op) {
    case Op::kBinary:
    case Op::kWhere:
    case Op::kRandom:
      return Elements(outputs[0]);
    case Op::kFused:
      return FusedFlops(std::get<FusedAttributes>(attributes));
    case Op::kScatterElements:
    case Op::kScatterNd:
      return std::get<ScatterAttributes>(attributes).reduction ==
                     ScatterReduction::kNone
                 ? 0
                 : Elements(inputs[2]);
    case Op::kBatchMatMul:
      return BatchMatMulFlops(std::get<BatchMatMulAttributes>(attributes),
                              inputs[0].shape, outputs[0]);
    case Op::kAttention:
      return AttentionFlops(inputs.first(3), 1, 1);
    // The gradient recomputes the scores (D) and makes dq, dk (D each), dv and
    // the gradient of the scores (E each).
    case Op::kAttentionGrad:
      return AttentionFlops(inputs.subspan(1, 3), 3, 2);
    case Op::kResize:
      return ResizeFlops(std::get<ResizeAttributes>(attributes),
                         inputs[0].shape);
    case Op::kResizeGrad: {
      const auto& grad = std::get<ResizeGradAttributes>(attributes);
      return ResizeFlops(grad.resize, grad.input);
    }
    case Op::kLrn:
    case Op::kLrnGrad: {
      const int64_t size = std::get<LrnAttributes>(attributes).size;
      const uint64_t forward = Add(Multiply(2, static_cast<uint64_t>(size)), 4);
      return Multiply(Elements(inputs[0]),
                      Multiply(op == Op::kLrn ? 1 : 2, forward));
    }
    default:
      return std::nullopt;
  }
}

}  // namespace

uint64_t Flops(Op op, const Attributes& attributes,
               absl::Span<const TensorType> inputs,
               absl::Span<const TensorType> outputs) {
  if (const auto core = CoreFlops(op, attributes, inputs, outputs)) {
    return *core;
  }
  switch (op) {
    case Op::kMatMul: {
      const auto& matmul = std::get<MatMulAttributes>(attributes);
      return Add(MatMulFlops(matmul, inputs[0].shape, outputs[0]),
                 EpilogueFlops(matmul.epilogue, outputs[0]));
    }
    case Op::kConv2d:
      return Add(ConvFlops(outputs[0], inputs[1].shape),
                 EpilogueFlops(std::get<Conv2dAttributes>(attributes).epilogue,
                               outputs[0]));
    case Op::kConv2dInputGrad:
      return ConvFlops(inputs[0], inputs[1].shape);
    case Op::kConv2dWeightGrad:
      return ConvFlops(inputs[0], outputs[0].shape);
    case Op::kMaxPool:
    case Op::kAvgPool:
      return WindowFlops(std::get<Pool2dAttributes>(attributes), outputs[0]);
    case Op::kAvgPoolGrad:
      return WindowFlops(std::get<Pool2dGradAttributes>(attributes).pool,
                         inputs[0]);
    case Op::kGlobalNorm: {
      uint64_t total = 0;
      for (const TensorType& input : inputs) {
        total = Add(total, 2 * Elements(input));
      }
      return total;
    }
    default:
      return Multiply(Elements(inputs[0]), PerElement(op));
  }
}

}  // namespace gpupool::engine
