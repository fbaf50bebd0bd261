// One gradient rule for each differentiable op. Internal to engine/autodiff.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "engine/graph/builder.h"

namespace gpupool::engine::autodiff {

// The input and output of a rule: a forward node, the gradient of its first
// output, and the gradients of its inputs.
class RuleContext {
 public:
  // Makes a context. `dy` is invalid for a loss that is differentiated itself:
  // it is then 1.
  RuleContext(const Node& node, ValueId dy, std::vector<bool> needed,
              GraphBuilder* builder)
      : node_(node),
        dy_(dy),
        needed_(std::move(needed)),
        gradients_(node.inputs.size()),
        builder_(builder) {}

  const Node& node() const { return node_; }
  ValueId input(size_t i) const { return node_.inputs[i]; }
  ValueId output(size_t i) const { return node_.outputs[i]; }
  ValueId dy() const { return dy_; }
  // Returns whether the gradient of input i is wanted.
  bool needs(size_t i) const { return i < needed_.size() && needed_[i]; }
  const Shape& shape(ValueId id) const { return builder_->shape(id); }
  GraphBuilder& builder() { return *builder_; }

  void Set(size_t input, ValueId gradient) { gradients_[input] = gradient; }
  // Emits a node whose first output is the gradient of `input`, if that is
  // wanted.
  absl::Status Emit(size_t input, Op op, absl::Span<const ValueId> inputs,
                    Attributes attributes = {});
  // Returns the gradients; those not set are invalid.
  const std::vector<ValueId>& gradients() const { return gradients_; }

 private:
  const Node node_;  // a copy, because the graph grows meanwhile
  ValueId dy_;
  std::vector<bool> needed_;
  std::vector<ValueId> gradients_;
  GraphBuilder* builder_;
};

// Sets the gradients of the needed inputs. INVALID_ARGUMENT when the op, or
// this form of it, has no rule.
absl::Status ApplyRule(RuleContext& context);

// The rules of the families, in rules_*.cc: the op table's column `gradient`.
absl::Status MatMulRule(RuleContext& context);
absl::Status Conv2dRule(RuleContext& context);
absl::Status PoolRule(RuleContext& context);
absl::Status ActivationRule(RuleContext& context);
absl::Status NormRule(RuleContext& context);
absl::Status LossRule(RuleContext& context);
absl::Status ElementwiseRule(RuleContext& context);
absl::Status MovementRule(RuleContext& context);
absl::Status ProductRule(RuleContext& context);
absl::Status BlockedMatMulRule(RuleContext& context);

}  // namespace gpupool::engine::autodiff
