#include "engine/autodiff/rules.h"

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"

namespace gpupool::engine::autodiff {

absl::Status RuleContext::Emit(size_t input, Op op,
                               absl::Span<const ValueId> inputs,
                               Attributes attributes) {
  if (!needs(input)) return absl::OkStatus();
  ASSIGN_OR_RETURN(const ValueId gradient,
                   builder_->EmitOne(op, inputs, std::move(attributes)));
  Set(input, gradient);
  return absl::OkStatus();
}

absl::Status ApplyRule(RuleContext& context) {
  switch (context.node().op) {
    case Op::kReshape:
      return context.Emit(0, Op::kReshape, {context.dy()},
                          ShapeAttributes{context.shape(context.input(0))});
    // Without broadcasting both operands get the gradient as it is.
    case Op::kAdd:
      context.Set(0, context.dy());
      context.Set(1, context.dy());
      return absl::OkStatus();
    // The same seed and step repeat the mask of the forward node.
    case Op::kDropout:
      return context.Emit(0, Op::kDropout,
                          {context.dy(), context.input(1), context.input(2)},
                          context.node().attributes);
    case Op::kMatMul:
      return MatMulRule(context);
    case Op::kConv2d:
      return Conv2dRule(context);
    case Op::kMaxPool:
    case Op::kAvgPool:
    case Op::kGlobalAvgPool:
      return PoolRule(context);
    case Op::kRelu:
    case Op::kGelu:
    case Op::kSigmoid:
    case Op::kTanh:
    case Op::kSoftmax:
      return ActivationRule(context);
    case Op::kBatchNormTraining:
    case Op::kLayerNorm:
      return NormRule(context);
    case Op::kCrossEntropy:
    case Op::kMeanSquaredError:
      return LossRule(context);
    case Op::kUnary:
    case Op::kBinary:
    case Op::kWhere:
    case Op::kCast:
    case Op::kReduce:
    case Op::kCumSum:
    case Op::kBroadcast:
      return ElementwiseRule(context);
    case Op::kTranspose:
    case Op::kSlice:
    case Op::kPad:
    case Op::kConcat:
    case Op::kGather:
    case Op::kGatherElements:
    case Op::kGatherNd:
    case Op::kScatterElements:
    case Op::kScatterNd:
    case Op::kTopK:
    case Op::kResize:
      return MovementRule(context);
    case Op::kBatchMatMul:
    case Op::kAttention:
    case Op::kLrn:
    case Op::kLogSoftmax:
    case Op::kConv2dInputGrad:
      return ProductRule(context);
    default:
      return absl::InvalidArgumentError(
          absl::StrCat(OpName(context.node().op), " of layer '",
                       context.node().source, "' has no gradient"));
  }
}

}  // namespace gpupool::engine::autodiff
