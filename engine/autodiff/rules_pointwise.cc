// Gradients of activations, normalisations and losses. The reference back end
// has the formulas of the gradient nodes.
#include "absl/strings/str_cat.h"
#include "engine/autodiff/formula.h"
#include "engine/autodiff/rules.h"
#include "engine/base/status_macros.h"

namespace gpupool::engine::autodiff {

// Emits the gradient of an activation. All but GELU use the output, so the
// input need not be kept.
absl::Status ActivationRule(RuleContext& context) {
  const ValueId dy = context.dy();
  const ValueId x = context.input(0);
  const ValueId y = context.output(0);
  switch (context.node().op) {
    case Op::kRelu:
      return context.Emit(0, Op::kReluGrad, {dy, y});
    case Op::kGelu:
      return context.Emit(0, Op::kGeluGrad, {dy, x}, context.node().attributes);
    case Op::kSigmoid:
      return context.Emit(0, Op::kSigmoidGrad, {dy, y});
    case Op::kTanh:
      return context.Emit(0, Op::kTanhGrad, {dy, y});
    default:
      return context.Emit(0, Op::kSoftmaxGrad, {dy, y});
  }
}

absl::Status NormRule(RuleContext& context) {
  const Node& node = context.node();
  const bool batch = node.op == Op::kBatchNormTraining;
  if (node.outputs.size() != 3) {
    return absl::InvalidArgumentError(
        absl::StrCat(OpName(node.op), " of layer '", node.source,
                     "' was built without statistics and has no gradient"));
  }
  ASSIGN_OR_RETURN(
      const ValueIds gradients,
      context.builder().Emit(
          batch ? Op::kBatchNormTrainingGrad : Op::kLayerNormGrad,
          {context.dy(), node.inputs[0], node.inputs[1], node.outputs[1],
           node.outputs[2]},
          NormAttributes{.epsilon = node.get<NormAttributes>().epsilon}));
  for (size_t i = 0; i < gradients.size(); ++i) {
    if (context.needs(i)) context.Set(i, gradients[i]);
  }
  return absl::OkStatus();
}

absl::Status LossRule(RuleContext& context) {
  const Node& node = context.node();
  const bool entropy = node.op == Op::kCrossEntropy;
  if (node.inputs.size() != 2 ||
      node.get<LossAttributes>().reduction != Reduction::kMean) {
    return absl::InvalidArgumentError(
        absl::StrCat(OpName(node.op), " of layer '", node.source,
                     "' is not the mean loss of a whole batch and has no "
                     "gradient"));
  }
  Formula formula(&context.builder());
  ASSIGN_OR_RETURN(
      ValueId gradient,
      context.builder().EmitOne(
          entropy ? Op::kCrossEntropyGrad : Op::kMeanSquaredErrorGrad,
          {context.input(0), context.input(1)}, node.attributes));
  if (context.dy().valid()) {
    gradient =
        formula.Binary(BinaryFunction::kMultiply, gradient, context.dy());
  }
  context.Set(0, gradient);
  // Only the target of a squared error can need a gradient. It has the opposite
  // sign.
  if (context.needs(1)) {
    context.Set(1, formula.Unary(UnaryFunction::kNegate, gradient));
  }
  return formula.status();
}

}  // namespace gpupool::engine::autodiff
