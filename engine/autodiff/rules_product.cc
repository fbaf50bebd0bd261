// Gradients of matmul, convolution and pools.
#include "absl/strings/str_cat.h"
#include "engine/autodiff/rules.h"
#include "engine/base/status_macros.h"

namespace gpupool::engine::autodiff {
namespace {

// Refuses a node with a fused activation; fusion must come after
// differentiation.
absl::Status CheckNotFused(const Node& node, const Epilogue& epilogue) {
  if (epilogue.activation == Activation::kNone) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      OpName(node.op), " of layer '", node.source,
      "' is fused with what follows and has no gradient any more"));
}

// Passes the product's gradient on to a residual, which is added to the
// product.
void PassToResidual(RuleContext& context, const Epilogue& epilogue) {
  const size_t residual = epilogue.bias ? 3 : 2;
  if (epilogue.residual && context.needs(residual)) {
    context.Set(residual, context.dy());
  }
}

}  // namespace

// Differentiates y = A' B', where A' is A or A transposed, and B' likewise: dA'
// = dy B'^T and dB' = A'^T dy.
absl::Status MatMulRule(RuleContext& context) {
  const auto matmul = context.node().get<MatMulAttributes>();
  RETURN_IF_ERROR(CheckNotFused(context.node(), matmul.epilogue));
  const ValueId a = context.input(0);
  const ValueId b = context.input(1);
  const ValueId dy = context.dy();
  const bool ta = matmul.transpose_a;
  const bool tb = matmul.transpose_b;
  if (ta) {
    RETURN_IF_ERROR(
        context.Emit(0, Op::kMatMul, {b, dy}, MatMulAttributes{tb, true, {}}));
  } else {
    RETURN_IF_ERROR(context.Emit(0, Op::kMatMul, {dy, b},
                                 MatMulAttributes{false, !tb, {}}));
  }
  if (tb) {
    RETURN_IF_ERROR(
        context.Emit(1, Op::kMatMul, {dy, a}, MatMulAttributes{true, ta, {}}));
  } else {
    RETURN_IF_ERROR(context.Emit(1, Op::kMatMul, {a, dy},
                                 MatMulAttributes{!ta, false, {}}));
  }
  PassToResidual(context, matmul.epilogue);
  if (!matmul.epilogue.bias) return absl::OkStatus();
  return context.Emit(2, Op::kColumnSum, {dy});
}

absl::Status Conv2dRule(RuleContext& context) {
  auto conv = context.node().get<Conv2dAttributes>();
  RETURN_IF_ERROR(CheckNotFused(context.node(), conv.epilogue));
  PassToResidual(context, conv.epilogue);
  const bool bias = conv.epilogue.bias && context.needs(2);
  conv.epilogue = {};
  const ValueId x = context.input(0);
  const ValueId w = context.input(1);
  if (context.needs(1) || bias) {
    const Conv2dGradAttributes attributes{
        .conv = conv, .result = context.shape(w), .bias_grad = bias};
    ASSIGN_OR_RETURN(const ValueIds gradients,
                     context.builder().Emit(Op::kConv2dWeightGrad,
                                            {context.dy(), x}, attributes));
    context.Set(1, gradients[0]);
    if (bias) context.Set(2, gradients[1]);
  }
  return context.Emit(
      0, Op::kConv2dInputGrad, {context.dy(), w},
      Conv2dGradAttributes{.conv = conv, .result = context.shape(x)});
}

absl::Status PoolRule(RuleContext& context) {
  const Shape x = context.shape(context.input(0));
  if (context.node().op == Op::kGlobalAvgPool) {
    return context.Emit(0, Op::kGlobalAvgPoolGrad, {context.dy()},
                        ShapeAttributes{x});
  }
  const auto pool = context.node().get<Pool2dAttributes>();
  const Pool2dGradAttributes attributes{.pool = pool, .input = x};
  if (context.node().op == Op::kAvgPool) {
    return context.Emit(0, Op::kAvgPoolGrad, {context.dy()}, attributes);
  }
  if (!pool.with_argmax) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_pool of layer '", context.node().source,
                     "' was built without argmax and has no gradient"));
  }
  return context.Emit(0, Op::kMaxPoolGrad, {context.dy(), context.output(1)},
                      attributes);
}

}  // namespace gpupool::engine::autodiff
