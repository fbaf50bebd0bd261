// FLOPs per op, the column of the op table that is a function.
#include <limits>

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

// Two per product of an output element with each weight of its filter.
uint64_t ConvFlops(const TensorType& y, const Shape& w) {
  const auto per_output = static_cast<uint64_t>(w.elements() / w[0]);
  return Multiply(Multiply(2, Elements(y)), per_output);
}

uint64_t MatMulFlops(const MatMulAttributes& matmul, const Shape& a,
                     const TensorType& y) {
  const auto inner = static_cast<uint64_t>(a[matmul.transpose_a ? 0 : 1]);
  return Multiply(Multiply(2, Elements(y)), inner);
}

uint64_t WindowFlops(const Pool2dAttributes& pool, const TensorType& y) {
  return Multiply(Elements(y),
                  static_cast<uint64_t>(pool.kernel.cells()));
}

uint64_t EpilogueFlops(const Epilogue& epilogue, const TensorType& y) {
  const uint64_t per_element = static_cast<uint64_t>(epilogue.bias) +
                               static_cast<uint64_t>(epilogue.residual) +
                               (epilogue.activation != Activation::kNone);
  return Multiply(Elements(y), per_element);
}

// Per element of the first input, by the formulas of the op's definition.
uint64_t PerElement(Op op) {
  switch (op) {
    case Op::kReshape:
    case Op::kLayoutConvert:
    case Op::kMaxPoolGrad:
      return 0;
    case Op::kScaleShift:
    case Op::kDropout:
    case Op::kBatchNormInference:
    case Op::kClipCoefficient:
    case Op::kFoldBatchNorm:
      return 2;
    case Op::kMeanSquaredError:
    case Op::kMeanSquaredErrorGrad:
      return 3;
    case Op::kSoftmax:
    case Op::kSoftmaxGrad:
    case Op::kCrossEntropy:
    case Op::kCrossEntropyGrad:
    case Op::kSgdStep:
      return 4;
    case Op::kBatchNormTraining:
    case Op::kLayerNorm:
    case Op::kGelu:
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

}  // namespace

uint64_t Flops(Op op, const Attributes& attributes,
               absl::Span<const TensorType> inputs,
               absl::Span<const TensorType> outputs) {
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
    case Op::kClipCoefficient: {
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
