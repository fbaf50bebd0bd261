#include "engine/backends/reference/kernels.h"

namespace gpupool::engine::reference {
namespace {

using Kernel = void (*)(const Operands&);

// Kernels that cannot fail; null for the others.
Kernel Find(Op op) {
  switch (op) {
    case Op::kReshape:
    case Op::kLayoutConvert:
      return Reshape;
    case Op::kAdd:
      return Add;
    case Op::kRelu:
    case Op::kGelu:
    case Op::kSigmoid:
    case Op::kTanh:
      return ActivationForward;
    case Op::kReluGrad:
    case Op::kGeluGrad:
    case Op::kSigmoidGrad:
    case Op::kTanhGrad:
      return ActivationGradient;
    case Op::kScaleShift:
      return ScaleShift;
    case Op::kDropout:
      return Dropout;
    case Op::kMatMul:
      return MatMul;
    case Op::kColumnSum:
      return ColumnSum;
    case Op::kConv2d:
      return Conv2d;
    case Op::kConv2dInputGrad:
      return Conv2dInputGrad;
    case Op::kConv2dWeightGrad:
      return Conv2dWeightGrad;
    case Op::kMaxPool:
      return MaxPool;
    case Op::kMaxPoolGrad:
      return MaxPoolGrad;
    case Op::kAvgPool:
      return AvgPool;
    case Op::kAvgPoolGrad:
      return AvgPoolGrad;
    case Op::kGlobalAvgPool:
      return GlobalAvgPool;
    case Op::kGlobalAvgPoolGrad:
      return GlobalAvgPoolGrad;
    case Op::kBatchNormTraining:
      return BatchNormTraining;
    case Op::kBatchNormUpdate:
      return BatchNormUpdate;
    case Op::kBatchNormInference:
      return BatchNormInference;
    case Op::kBatchNormTrainingGrad:
      return BatchNormTrainingGrad;
    case Op::kLayerNorm:
      return LayerNorm;
    case Op::kLayerNormGrad:
      return LayerNormGrad;
    case Op::kSoftmax:
      return Softmax;
    case Op::kSoftmaxGrad:
      return SoftmaxGrad;
    case Op::kMeanSquaredError:
      return MeanSquaredError;
    case Op::kMeanSquaredErrorGrad:
      return MeanSquaredErrorGrad;
    case Op::kClipCoefficient:
      return ClipCoefficient;
    case Op::kSgdStep:
      return SgdStep;
    case Op::kAdamStep:
      return AdamStep;
    case Op::kFoldBatchNorm:
      return FoldBatchNorm;
    case Op::kCrossEntropy:
    case Op::kCrossEntropyGrad:
    case Op::kCorrectCount:
      return nullptr;
  }
  return nullptr;
}

}  // namespace

absl::Status RunKernel(const Operands& operands) {
  switch (operands.node.op) {
    case Op::kCrossEntropy:
      return CrossEntropy(operands);
    case Op::kCrossEntropyGrad:
      return CrossEntropyGrad(operands);
    case Op::kCorrectCount:
      return CorrectCount(operands);
    default:
      Find(operands.node.op)(operands);
      return absl::OkStatus();
  }
}

}  // namespace gpupool::engine::reference
