#include "engine/autodiff/rules.h"

#include <array>

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

namespace {

using Rule = absl::Status (*)(RuleContext&);

absl::Status ReshapeRule(RuleContext& context) {
  return context.Emit(0, Op::kReshape, {context.dy()},
                      ShapeAttributes{context.shape(context.input(0))});
}

absl::Status AddRule(RuleContext& context) {
  // Without broadcasting both operands get the gradient as it is.
  context.Set(0, context.dy());
  context.Set(1, context.dy());
  return absl::OkStatus();
}

absl::Status DropoutRule(RuleContext& context) {
  // The same seed and step repeat the mask of the forward node.
  return context.Emit(0, Op::kDropout,
                      {context.dy(), context.input(1), context.input(2)},
                      context.node().attributes);
}

absl::Status NoGradient(RuleContext& context) {
  return absl::InvalidArgumentError(
      absl::StrCat(OpName(context.node().op), " of layer '",
                   context.node().source, "' has no gradient"));
}

constexpr std::array<Rule, kOpCount> kRules = {
#define GPUPOOL_OP(op, name, inputs, outputs, attributes, type_rule, layout, \
                   in_place, traits, cost, autocast, gradient, ...)          \
  gradient,
#include "engine/graph/op_table.inc"
};

}  // namespace

absl::Status ApplyRule(RuleContext& context) {
  return kRules[static_cast<size_t>(context.node().op)](context);
}

}  // namespace gpupool::engine::autodiff
