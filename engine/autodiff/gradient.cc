#include "engine/autodiff/gradient.h"

#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "engine/autodiff/join_slices.h"
#include "engine/autodiff/rules.h"
#include "engine/base/status_macros.h"
#include "engine/graph/builder.h"

namespace gpupool::engine {
namespace {

// Returns whether the op's rule takes its own gradient as 1 if there is none.
bool IsLoss(Op op) {
  return op == Op::kCrossEntropy || op == Op::kMeanSquaredError;
}

// Returns the position of the node that makes `loss`, one floating-point
// number.
absl::StatusOr<int> LossNode(const Graph& graph, ValueId loss) {
  const Value& value = graph.value(loss);
  if (!IsFloating(value.dtype) || value.shape.elements() != 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "'", value.name, "' is ", DTypeName(value.dtype), " ",
        value.shape.ToString(), "; a loss is one floating point number"));
  }
  const int position = GraphIndex(graph).producer(loss);
  if (position >= 0) return position;
  return absl::InvalidArgumentError(
      absl::StrCat("'", value.name, "' is not computed and is no loss"));
}

class Differentiator {
 public:
  Differentiator(Graph& graph, ValueId loss, int loss_node)
      : graph_(graph),
        loss_(loss),
        loss_node_(loss_node),
        builder_(&graph),
        influenced_(graph.values().size(), false),
        contributions_(graph.values().size()) {
    builder_.SetMemoryClass(MemoryClass::kGradient);
  }

  absl::StatusOr<std::vector<ValueId>> Run(
      absl::Span<const ValueId> with_respect_to, ValueId loss_gradient) {
    for (ValueId id : with_respect_to) {
      const Value& value = graph_.value(id);
      if (IsFloating(value.dtype)) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("'", value.name, "' holds ", DTypeName(value.dtype),
                       " and has no gradient"));
    }
    MarkInfluence(with_respect_to);
    Seed(loss_gradient);
    // Readers of a value come after it, so walking backwards visits a node when
    // all contributions to its gradient are there.
    for (int i = loss_node_; i >= 0; --i) {
      RETURN_IF_ERROR(Visit(i));
    }
    std::vector<ValueId> gradients;
    for (ValueId id : with_respect_to) {
      ASSIGN_OR_RETURN(const ValueId gradient, Total(id));
      if (!gradient.valid()) {
        return absl::InvalidArgumentError(absl::StrCat(
            "the loss does not depend on '", graph_.value(id).name, "'"));
      }
      gradients.push_back(gradient);
    }
    return gradients;
  }

 private:
  static size_t At(ValueId id) { return static_cast<size_t>(id.index); }

  // Marks the values that depend on a wanted one through floating-point
  // numbers. Comparisons, positions and casts to integers pass no gradient.
  void MarkInfluence(absl::Span<const ValueId> with_respect_to) {
    for (ValueId id : with_respect_to) influenced_[At(id)] = true;
    // Nodes after the loss cannot influence it.
    for (int i = 0; i <= loss_node_; ++i) {
      const Node& node = graph_.nodes()[static_cast<size_t>(i)];
      bool any = false;
      for (ValueId id : node.inputs) any = any || influenced_[At(id)];
      for (ValueId id : node.outputs) {
        if (any && IsFloating(graph_.value(id).dtype)) {
          influenced_[At(id)] = true;
        }
      }
    }
  }

  // Sets the loss's own gradient: the given one, or 1.
  void Seed(ValueId given) {
    if (given.valid()) {
      contributions_[At(loss_)] = {given};
      return;
    }
    const Node& node = graph_.nodes()[static_cast<size_t>(loss_node_)];
    if (IsLoss(node.op)) return;
    contributions_[At(loss_)] = {
        builder_.Constant(graph_.value(loss_).type(), {1})};
  }

  // Checks that only the first output has a gradient; the rules know no other.
  absl::Status CheckOtherOutputs(const Node& node) const {
    for (size_t i = 1; i < node.outputs.size(); ++i) {
      if (contributions_[At(node.outputs[i])].empty()) continue;
      return absl::InvalidArgumentError(
          absl::StrCat(OpName(node.op), " of layer '", node.source,
                       "' has no gradient from its output ", i));
    }
    return absl::OkStatus();
  }

  absl::Status Visit(int position) {
    // A copy, because adding contributions appends nodes, which moves all of
    // them.
    const Node node = graph_.nodes()[static_cast<size_t>(position)];
    std::vector<bool> needed;
    bool any = false;
    for (ValueId id : node.inputs) {
      needed.push_back(influenced_[At(id)]);
      any = any || needed.back();
    }
    if (!any) return absl::OkStatus();
    builder_.SetSource(node.source, node.region);
    RETURN_IF_ERROR(CheckOtherOutputs(node));
    const ValueId output = node.outputs[0];
    ASSIGN_OR_RETURN(const ValueId dy, Total(output));
    // The loss does not depend on this node's result.
    if (!dy.valid() && (position != loss_node_ || output != loss_)) {
      return absl::OkStatus();
    }
    autodiff::RuleContext context(node, dy, needed, &builder_);
    RETURN_IF_ERROR(autodiff::ApplyRule(context));
    for (size_t i = 0; i < needed.size(); ++i) {
      const ValueId gradient = context.gradients()[i];
      if (!needed[i] || !gradient.valid()) continue;
      contributions_[At(context.input(i))].push_back(gradient);
      // Noted, so that Total can join the parts instead of adding them.
      if (node.op == Op::kSlice) {
        slices_[gradient.index] = {dy, node.get<SliceAttributes>()};
      }
    }
    return absl::OkStatus();
  }

  // Replaces the contributions that come from slices by one if they can be
  // joined.
  absl::Status JoinParts(ValueId id, std::vector<ValueId>& parts) {
    std::vector<autodiff::SlicePart> slices;
    std::vector<ValueId> others;
    for (ValueId part : parts) {
      const auto found = slices_.find(part.index);
      if (found == slices_.end()) {
        others.push_back(part);
      } else {
        slices.push_back(found->second);
      }
    }
    if (slices.size() < 2) return absl::OkStatus();
    ASSIGN_OR_RETURN(const ValueId joined,
                     autodiff::JoinSlices(builder_, graph_.value(id).type(),
                                          std::move(slices)));
    if (!joined.valid()) return absl::OkStatus();
    others.push_back(joined);
    parts = std::move(others);
    return absl::OkStatus();
  }

  // Returns the sum of all contributions; invalid when there are none.
  absl::StatusOr<ValueId> Total(ValueId id) {
    std::vector<ValueId>& parts = contributions_[At(id)];
    if (parts.empty()) return ValueId{};
    RETURN_IF_ERROR(JoinParts(id, parts));
    ValueId sum = parts[0];
    for (size_t i = 1; i < parts.size(); ++i) {
      ASSIGN_OR_RETURN(sum, builder_.EmitOne(Op::kAdd, {sum, parts[i]}));
    }
    // A second call finds the sum and adds no nodes.
    parts = {sum};
    return sum;
  }

  Graph& graph_;
  const ValueId loss_;
  const int loss_node_;
  GraphBuilder builder_;
  std::vector<bool> influenced_;
  std::vector<std::vector<ValueId>> contributions_;
  // The contributions that were made by slices.
  absl::flat_hash_map<int32_t, autodiff::SlicePart> slices_;
};

}  // namespace

absl::StatusOr<std::vector<ValueId>> AddGradients(
    Graph& graph, ValueId loss, absl::Span<const ValueId> with_respect_to,
    ValueId loss_gradient) {
  ASSIGN_OR_RETURN(const int loss_node, LossNode(graph, loss));
  return Differentiator(graph, loss, loss_node)
      .Run(with_respect_to, loss_gradient);
}

}  // namespace gpupool::engine
