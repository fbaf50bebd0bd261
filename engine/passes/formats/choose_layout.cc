#include "engine/passes/formats/choose_layout.h"

#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/graph/layout_rule.h"
#include "engine/passes/rewrite/rewrite.h"

namespace gpupool::engine {
namespace {

bool IsConvolution(Op op) {
  return op == Op::kConv2d || op == Op::kQuantizedConv2d ||
         op == Op::kConv2dInputGrad || op == Op::kConv2dWeightGrad;
}

// The nodes that work channels-last: nodes that accept any layout and are
// connected to a convolution through image values. Regions are the sets of a
// union-find structure over values.
class Regions {
 public:
  explicit Regions(const Graph& graph)
      : graph_(graph), parent_(graph.values().size()) {
    std::iota(parent_.begin(), parent_.end(), 0);
    for (const Node& node : graph.nodes()) Join(node);
    for (const Node& node : graph.nodes()) {
      if (!IsConvolution(node.op)) continue;
      around_convolution_.resize(parent_.size(), false);
      ForEachImage(
          node, [this](ValueId id) { around_convolution_[Root(id)] = true; });
    }
  }

  bool Contains(const Node& node) {
    if (around_convolution_.empty()) return false;
    bool inside = false;
    ForEachImage(node, [&](ValueId id) {
      inside = inside || around_convolution_[Root(id)];
    });
    return inside;
  }

  bool Contains(ValueId image) {
    return !around_convolution_.empty() && around_convolution_[Root(image)];
  }

  // Visits the 4-D data values of a node that accepts any layout.
  template <typename Visit>
  void ForEachImage(const Node& node, Visit visit) const {
    if (LayoutRuleOf(graph_, node) != LayoutRule::kSame ||
        node.stage != Stage::kStep) {
      return;
    }
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (IsImage(node.inputs[i]) && !IsWeightInput(node.op, i) &&
          !TakesEitherLayout(graph_, node, i)) {
        visit(node.inputs[i]);
      }
    }
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (IsImage(node.outputs[i]) && !IsWeightOutput(node.op, i)) {
        visit(node.outputs[i]);
      }
    }
  }

 private:
  bool IsImage(ValueId id) const { return graph_.value(id).shape.rank() == 4; }

  // Halves the path on the way to the root.
  size_t Root(ValueId id) {
    size_t at = static_cast<size_t>(id.index);
    while (parent_[at] != at) at = parent_[at] = parent_[parent_[at]];
    return at;
  }

  void Join(const Node& node) {
    ValueId first;
    ForEachImage(node, [&](ValueId id) {
      if (!first.valid()) first = id;
      parent_[Root(id)] = Root(first);
    });
  }

  const Graph& graph_;
  std::vector<size_t> parent_;
  std::vector<bool> around_convolution_;
};

// Rebuilds the node list and converts values for readers of another layout.
class Converter {
 public:
  explicit Converter(Graph& graph) : graph_(graph), regions_(graph) {}

  void Run() {
    const std::vector<Node> old = graph_.mutable_nodes();
    std::vector<bool> inside;
    for (const Node& node : old) inside.push_back(regions_.Contains(node));
    graph_.mutable_nodes().clear();
    for (size_t i = 0; i < old.size(); ++i) Place(old[i], inside[i]);
    // Outputs of the graph are row-major, whatever region made them.
    for (GraphOutput& output : graph_.mutable_outputs()) {
      output.value = InLayout(output.value, Layout::kRowMajor, Node{});
    }
  }

 private:
  void Place(Node node, bool inside) {
    if (CellMoveOf(node) != CellMove::kNone && node.stage == Stage::kStep) {
      return PlaceCellMove(std::move(node));
    }
    const Layout layout = inside ? Layout::kChannelsLast : Layout::kRowMajor;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (inside && TakesEitherLayout(graph_, node, i)) continue;
      const bool weight = IsWeightInput(node.op, i);
      node.inputs[i] =
          InLayout(node.inputs[i], weight ? Layout::kRowMajor : layout, node);
    }
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      Value& value = graph_.mutable_value(node.outputs[i]);
      if (value.shape.rank() != 4 || IsWeightOutput(node.op, i)) continue;
      if (inside) value.layout = Layout::kChannelsLast;
    }
    graph_.mutable_nodes().push_back(std::move(node));
  }

  // Leaves the image of the transpose in the layout that it has elsewhere. If
  // that is channels-last, nothing moves.
  void PlaceCellMove(Node node) {
    if (CellMoveOf(node) == CellMove::kToImage) {
      node.inputs[0] = InLayout(node.inputs[0], Layout::kRowMajor, node);
      if (regions_.Contains(node.outputs[0])) {
        graph_.mutable_value(node.outputs[0]).layout = Layout::kChannelsLast;
      }
    }
    graph_.mutable_nodes().push_back(std::move(node));
  }

  // Returns the value in the layout: itself, or a copy that is made once.
  ValueId InLayout(ValueId id, Layout layout, const Node& reader) {
    const Value& value = graph_.value(id);
    if (value.shape.rank() != 4 || value.layout == layout) return id;
    const auto [found, inserted] =
        converted_.try_emplace({id.index, layout}, ValueId{});
    if (!inserted) return found->second;
    Value copy = value;
    absl::StrAppend(&copy.name, layout == Layout::kRowMajor ? ":row_major"
                                                            : ":channels_last");
    copy.kind = ValueKind::kIntermediate;
    copy.layout = layout;
    copy.alias = {};
    copy.constant.clear();
    if (copy.memory_class != MemoryClass::kGradient) {
      copy.memory_class = MemoryClass::kActivation;
    }
    const ValueId result = graph_.AddValue(std::move(copy));
    graph_.AddNode({.op = Op::kLayoutConvert,
                    .attributes = LayoutAttributes{layout},
                    .inputs = {id},
                    .outputs = {result},
                    .source = reader.source,
                    .region = reader.region});
    converted_[{id.index, layout}] = result;
    return result;
  }

  Graph& graph_;
  Regions regions_;
  std::map<std::pair<int32_t, Layout>, ValueId> converted_;
};

}  // namespace

absl::Status ChooseLayout(Graph& graph) {
  Converter(graph).Run();
  return absl::OkStatus();
}

}  // namespace gpupool::engine
