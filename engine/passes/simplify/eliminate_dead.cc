#include "engine/passes/simplify/eliminate_dead.h"

#include <vector>

#include "engine/passes/rewrite/rewrite.h"

namespace gpupool::engine {

absl::Status EliminateDeadNodes(Graph& graph) {
  std::vector<bool> live(graph.values().size(), false);
  const auto mark = [&live](ValueId id) {
    live[static_cast<size_t>(id.index)] = true;
  };
  for (const GraphOutput& output : graph.outputs()) mark(output.value);
  for (const Value& value : graph.values()) {
    if (value.alias.kind == AliasKind::kUpdate) mark(value.id);
  }
  // Backwards, so a node is seen after all its readers.
  std::vector<bool> drop(graph.nodes().size(), true);
  for (size_t i = graph.nodes().size(); i-- > 0;) {
    const Node& node = graph.nodes()[i];
    for (ValueId id : node.outputs) {
      if (live[static_cast<size_t>(id.index)]) drop[i] = false;
    }
    if (drop[i]) continue;
    for (ValueId id : node.inputs) mark(id);
  }
  DropNodes(graph, drop);
  return absl::OkStatus();
}

}  // namespace gpupool::engine
