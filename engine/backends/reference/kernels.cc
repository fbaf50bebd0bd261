#include "engine/backends/reference/kernels.h"

namespace gpupool::engine::reference {
namespace {

using Kernel = void (*)(const Operands&);

// Returns the kernel of an op that cannot fail, or null for other ops.
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
    case Op::kGlobalNorm:
      return GlobalNorm;
    case Op::kAllReduceStart:
      return AllReduceStart;
    case Op::kAllReduceWait:
      return AllReduceWait;
    case Op::kSgdStep:
      return SgdStep;
    case Op::kAdamStep:
      return AdamStep;
    case Op::kFoldBatchNorm:
      return FoldBatchNorm;
    case Op::kUnary:
      return UnaryOp;
    case Op::kUnaryGrad:
      return UnaryGrad;
    case Op::kBinary:
      return BinaryOp;
    case Op::kWhere:
      return Where;
    case Op::kCast:
      return Cast;
    case Op::kFused:
      return Fused;
    case Op::kReduce:
      return Reduce;
    case Op::kArgReduce:
      return ArgReduce;
    case Op::kCumSum:
      return CumSum;
    case Op::kBroadcast:
      return Broadcast;
    case Op::kTranspose:
      return Transpose;
    case Op::kSlice:
      return Slice;
    case Op::kSliceGrad:
      return SliceGrad;
    case Op::kPad:
      return Pad;
    case Op::kPadGrad:
      return PadGrad;
    case Op::kConcat:
      return Concat;
    case Op::kTopK:
      return TopK;
    case Op::kRandom:
      return Random;
    case Op::kResize:
      return Resize;
    case Op::kResizeGrad:
      return ResizeGrad;
    case Op::kBatchMatMul:
      return BatchMatMul;
    case Op::kAttention:
      return Attention;
    case Op::kAttentionGrad:
      return AttentionGrad;
    case Op::kLrn:
      return Lrn;
    case Op::kLrnGrad:
      return LrnGrad;
    case Op::kLogSoftmax:
      return LogSoftmax;
    case Op::kLogSoftmaxGrad:
      return LogSoftmaxGrad;
    case Op::kRmspropStep:
      return RmspropStep;
    case Op::kAdagradStep:
      return AdagradStep;
    case Op::kLionStep:
      return LionStep;
    case Op::kEmaUpdate:
      return EmaUpdate;
    case Op::kGather:
    case Op::kGatherGrad:
    case Op::kGatherElements:
    case Op::kGatherNd:
    case Op::kScatterElements:
    case Op::kScatterNd:
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
    case Op::kGather:
      return Gather(operands);
    case Op::kGatherGrad:
      return GatherGrad(operands);
    case Op::kGatherElements:
      return GatherElements(operands);
    case Op::kGatherNd:
      return GatherNd(operands);
    case Op::kScatterElements:
      return ScatterElements(operands);
    case Op::kScatterNd:
      return ScatterNd(operands);
    default:
      Find(operands.node.op)(operands);
      return absl::OkStatus();
  }
}

}  // namespace gpupool::engine::reference
