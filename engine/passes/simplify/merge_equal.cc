#include "engine/passes/simplify/merge_equal.h"

#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "engine/passes/rewrite/rewrite.h"

namespace gpupool::engine {
namespace {

// The hashable part of a node. Attributes are compared one by one.
using Key = std::tuple<Op, Stage, std::vector<int32_t>>;

Key KeyOf(const Node& node) {
  std::vector<int32_t> inputs;
  for (ValueId id : node.inputs) inputs.push_back(id.index);
  return {node.op, node.stage, std::move(inputs)};
}

bool CanMerge(const Graph& graph, const Node& node) {
  if (!Info(node.op).pure) return false;
  for (ValueId id : node.outputs) {
    if (graph.value(id).alias.kind != AliasKind::kNone) return false;
  }
  return true;
}

// Returns whether nothing overwrites an input before `position`, so both nodes
// read the same numbers.
bool InputsSurvive(const Node& node, const std::vector<int>& updaters,
                   int position) {
  for (ValueId id : node.inputs) {
    const int updater = updaters[static_cast<size_t>(id.index)];
    if (updater >= 0 && updater < position) return false;
  }
  return true;
}

}  // namespace

absl::Status MergeEqualNodes(Graph& graph) {
  const std::vector<int> updaters = Updaters(graph);
  std::vector<ValueId> replaced = Identity(graph);
  std::vector<bool> drop(graph.nodes().size(), false);
  absl::flat_hash_map<Key, std::vector<size_t>> seen;
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    Node& node = graph.mutable_nodes()[i];
    // Inputs first, so that chains of equal nodes merge in one pass.
    for (ValueId& id : node.inputs) id = Resolve(replaced, id);
    if (!CanMerge(graph, node) ||
        !InputsSurvive(node, updaters, static_cast<int>(i))) {
      continue;
    }
    std::vector<size_t>& candidates = seen[KeyOf(node)];
    bool merged = false;
    for (size_t earlier : candidates) {
      const Node& same = graph.nodes()[earlier];
      if (same.attributes != node.attributes) continue;
      for (size_t k = 0; k < node.outputs.size(); ++k) {
        replaced[static_cast<size_t>(node.outputs[k].index)] = same.outputs[k];
      }
      merged = true;
      break;
    }
    drop[i] = merged;
    if (!merged) candidates.push_back(i);
  }
  ApplyReplacements(graph, replaced);
  DropNodes(graph, drop);
  return absl::OkStatus();
}

}  // namespace gpupool::engine
