#include "engine/autodiff/gradient.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/autodiff/rules.h"
#include "engine/base/status_macros.h"
#include "engine/graph/builder.h"

namespace gpupool::engine {
namespace {

// Finds the node that makes `loss`; it must be a mean over the whole batch.
absl::StatusOr<int> LossNode(const Graph& graph, ValueId loss) {
  const int position = GraphIndex(graph).producer(loss);
  if (position >= 0) {
    const Node& node = graph.nodes()[static_cast<size_t>(position)];
    const auto* attributes = std::get_if<LossAttributes>(&node.attributes);
    if (attributes != nullptr && node.inputs.size() == 2 &&
        attributes->reduction == Reduction::kMean) {
      return position;
    }
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "'", graph.value(loss).name, "' is not the mean loss of a whole batch"));
}

class Differentiator {
 public:
  Differentiator(Graph& graph, int loss_node)
      : graph_(graph),
        loss_node_(loss_node),
        builder_(&graph),
        influenced_(graph.values().size(), false),
        contributions_(graph.values().size()) {
    builder_.SetMemoryClass(MemoryClass::kGradient);
  }

  absl::StatusOr<std::vector<ValueId>> Run(
      absl::Span<const ValueId> with_respect_to) {
    MarkInfluence(with_respect_to);
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

  // Which values depend on one of the wanted ones.
  void MarkInfluence(absl::Span<const ValueId> with_respect_to) {
    for (ValueId id : with_respect_to) influenced_[At(id)] = true;
    for (int i = 0; i <= loss_node_; ++i) {
      const Node& node = graph_.nodes()[static_cast<size_t>(i)];
      bool any = false;
      for (ValueId id : node.inputs) any = any || influenced_[At(id)];
      for (ValueId id : node.outputs) {
        if (any) influenced_[At(id)] = true;
      }
    }
  }

  absl::Status Visit(int position) {
    const Node& node = graph_.nodes()[static_cast<size_t>(position)];
    std::vector<bool> needed;
    bool any = false;
    for (ValueId id : node.inputs) {
      needed.push_back(influenced_[At(id)]);
      any = any || needed.back();
    }
    if (!any) return absl::OkStatus();
    builder_.SetSource(node.source, node.region);
    ValueId dy;
    if (position != loss_node_) {
      const ValueId output = node.outputs[0];
      ASSIGN_OR_RETURN(dy, Total(output));
      if (!dy.valid()) return absl::OkStatus();
    }
    autodiff::RuleContext context(graph_.nodes()[static_cast<size_t>(position)],
                                  dy, needed, &builder_);
    RETURN_IF_ERROR(autodiff::ApplyRule(context));
    for (size_t i = 0; i < needed.size(); ++i) {
      const ValueId gradient = context.gradients()[i];
      if (!needed[i] || !gradient.valid()) continue;
      contributions_[At(context.input(i))].push_back(gradient);
    }
    return absl::OkStatus();
  }

  // The sum of all contributions; invalid when there are none.
  absl::StatusOr<ValueId> Total(ValueId id) {
    std::vector<ValueId>& parts = contributions_[At(id)];
    if (parts.empty()) return ValueId{};
    ValueId sum = parts[0];
    for (size_t i = 1; i < parts.size(); ++i) {
      ASSIGN_OR_RETURN(sum, builder_.EmitOne(Op::kAdd, {sum, parts[i]}));
    }
    parts = {sum};
    return sum;
  }

  Graph& graph_;
  const int loss_node_;
  GraphBuilder builder_;
  std::vector<bool> influenced_;
  std::vector<std::vector<ValueId>> contributions_;
};

}  // namespace

absl::StatusOr<std::vector<ValueId>> AddGradients(
    Graph& graph, ValueId loss, absl::Span<const ValueId> with_respect_to) {
  ASSIGN_OR_RETURN(const int loss_node, LossNode(graph, loss));
  return Differentiator(graph, loss_node).Run(with_respect_to);
}

}  // namespace gpupool::engine
