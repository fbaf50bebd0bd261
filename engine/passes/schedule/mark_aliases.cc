#include "engine/passes/schedule/mark_aliases.h"

#include <algorithm>
#include <vector>

#include "engine/graph/layout_rule.h"

namespace gpupool::engine {
namespace {

// Returns a bit mask of the inputs that the node's first result may overwrite.
uint32_t InPlaceInputs(const Node& node) {
  const auto* conv = std::get_if<Conv2dAttributes>(&node.attributes);
  const auto* matmul = std::get_if<MatMulAttributes>(&node.attributes);
  if (conv == nullptr && matmul == nullptr) {
    return Info(node.op).in_place_inputs;
  }
  const Epilogue& epilogue = conv ? conv->epilogue : matmul->epilogue;
  // Only the residual is read element by element; the operands of a product are
  // read again for later results. It follows the bias.
  if (!epilogue.residual) return 0;
  return uint32_t{1} << (epilogue.bias ? 3 : 2);
}

class Marker {
 public:
  explicit Marker(Graph& graph)
      : graph_(graph), index_(graph), sharing_(graph.values().size()) {
    for (const Value& value : graph.values()) At(value.id) = {value.id};
  }

  void Run() {
    for (size_t i = 0; i < graph_.nodes().size(); ++i) {
      const Node& node = graph_.nodes()[i];
      if (node.stage != Stage::kStep) continue;
      if (node.op == Op::kReshape || node.op == Op::kLayoutConvert ||
          KeepsCells(graph_, node)) {
        TryView(node);
      } else {
        TryInPlace(node, static_cast<int>(i));
      }
    }
  }

 private:
  std::vector<ValueId>& At(ValueId id) {
    return sharing_[static_cast<size_t>(id.index)];
  }

  ValueId Root(ValueId id) const {
    while (graph_.value(id).alias.kind == AliasKind::kView) {
      id = graph_.value(id).alias.of;
    }
    return id;
  }

  void TryView(const Node& node) {
    Value& view = graph_.mutable_value(node.outputs[0]);
    const ValueId root = Root(node.inputs[0]);
    const ValueKind kind = graph_.value(root).kind;
    // A view of a persistent value could change later, and a view of an input
    // that is an output would hand out the caller's memory.
    if (kind != ValueKind::kIntermediate && kind != ValueKind::kInput) return;
    if (index_.is_output(view.id) && kind == ValueKind::kInput) return;
    const Value& x = graph_.value(node.inputs[0]);
    if (x.layout != view.layout && !SameBytesInAnyLayout(view.shape) &&
        !KeepsCells(graph_, node)) {
      return;
    }
    view.alias = {AliasKind::kView, node.inputs[0]};
    At(root).push_back(view.id);
  }

  void TryInPlace(const Node& node, int position) {
    // Each result of a fused node may overwrite another input.
    const size_t results = node.op == Op::kFused ? node.outputs.size() : 1;
    std::vector<ValueId> taken;
    for (size_t r = 0; r < results; ++r) {
      Value& y = graph_.mutable_value(node.outputs[r]);
      if (y.alias.kind != AliasKind::kNone) continue;
      const ValueId x = FindOverwritten(node, position, y, taken);
      if (!x.valid()) continue;
      y.alias = {AliasKind::kInPlace, x};
      taken.push_back(Root(x));
    }
  }

  // Returns the first input whose bytes y can have; invalid when there is none.
  ValueId FindOverwritten(const Node& node, int position, const Value& y,
                          const std::vector<ValueId>& taken) {
    const uint32_t candidates = InPlaceInputs(node);
    for (size_t i = 0; i < node.inputs.size() && i < 32; ++i) {
      const Value& x = graph_.value(node.inputs[i]);
      if ((candidates >> i & 1) == 0 || x.type() != y.type() ||
          x.layout != y.layout || !DiesHere(x.id, position) ||
          std::count(taken.begin(), taken.end(), Root(x.id)) > 0) {
        continue;
      }
      return x.id;
    }
    return {};
  }

  // Returns whether the node at `position` is the only and last reader of every
  // value that shares the bytes of `id`.
  bool DiesHere(ValueId id, int position) {
    const ValueId root = Root(id);
    if (graph_.value(root).kind != ValueKind::kIntermediate ||
        graph_.value(root).alias.kind == AliasKind::kUpdate) {
      return false;
    }
    int reads_here = 0;
    for (ValueId shared : At(root)) {
      if (index_.is_output(shared)) return false;
      for (int reader : index_.readers(shared)) {
        if (reader > position) return false;
        if (reader == position) ++reads_here;
      }
    }
    // A node that reads a value twice would overwrite its own operand.
    return reads_here == 1;
  }

  Graph& graph_;
  GraphIndex index_;
  // For each root the values that are views of it, itself included.
  std::vector<std::vector<ValueId>> sharing_;
};

}  // namespace

absl::Status MarkAliases(Graph& graph) {
  Marker(graph).Run();
  return absl::OkStatus();
}

}  // namespace gpupool::engine
