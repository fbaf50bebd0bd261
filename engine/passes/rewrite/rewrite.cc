#include "engine/passes/rewrite/rewrite.h"

#include <algorithm>
#include <utility>

namespace gpupool::engine {

std::vector<ValueId> Identity(const Graph& graph) {
  std::vector<ValueId> replaced;
  replaced.reserve(graph.values().size());
  for (const Value& value : graph.values()) replaced.push_back(value.id);
  return replaced;
}

ValueId Resolve(const std::vector<ValueId>& replaced, ValueId id) {
  for (;;) {
    const ValueId next = replaced[static_cast<size_t>(id.index)];
    if (next == id) return id;
    id = next;
  }
}

void ApplyReplacements(Graph& graph, const std::vector<ValueId>& replaced) {
  for (Node& node : graph.mutable_nodes()) {
    for (ValueId& id : node.inputs) id = Resolve(replaced, id);
  }
  for (GraphOutput& output : graph.mutable_outputs()) {
    output.value = Resolve(replaced, output.value);
  }
  // Values that were added since Identity have no aliases to redirect.
  for (size_t i = 0; i < replaced.size(); ++i) {
    Alias& alias = graph.mutable_value(ValueId{static_cast<int32_t>(i)}).alias;
    if (alias.of.valid()) alias.of = Resolve(replaced, alias.of);
  }
}

void DropNodes(Graph& graph, const std::vector<bool>& drop) {
  std::vector<Node> kept;
  std::vector<Node>& nodes = graph.mutable_nodes();
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (!drop[i]) kept.push_back(std::move(nodes[i]));
  }
  nodes = std::move(kept);
}

bool IsKnownAtLoad(const Value& value) {
  return value.kind == ValueKind::kPersistent ||
         value.kind == ValueKind::kDerived ||
         value.kind == ValueKind::kConstant;
}

void MoveLoadNodesFirst(Graph& graph) {
  std::vector<Node>& nodes = graph.mutable_nodes();
  // Stable, so that both parts stay executable.
  std::stable_partition(nodes.begin(), nodes.end(), [](const Node& node) {
    return node.stage == Stage::kLoad;
  });
}

bool HasUpdates(const Graph& graph) {
  for (const Value& value : graph.values()) {
    if (value.alias.kind == AliasKind::kUpdate) return true;
  }
  return false;
}

std::vector<int> Updaters(const Graph& graph) {
  std::vector<int> updaters(graph.values().size(), -1);
  int position = 0;
  for (const Node& node : graph.nodes()) {
    for (ValueId id : node.outputs) {
      const Alias& alias = graph.value(id).alias;
      if (alias.kind == AliasKind::kUpdate) {
        updaters[static_cast<size_t>(alias.of.index)] = position;
      }
    }
    ++position;
  }
  return updaters;
}

}  // namespace gpupool::engine
