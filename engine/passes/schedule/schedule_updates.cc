#include "engine/passes/schedule/schedule_updates.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace gpupool::engine {
namespace {

// Returns whether all outputs are updates, so no node waits for it.
bool OnlyUpdates(const Graph& graph, const Node& node) {
  for (ValueId id : node.outputs) {
    if (graph.value(id).alias.kind != AliasKind::kUpdate) return false;
  }
  return true;
}

// Returns the position after which the node may be placed; -1 for the front.
int EarliestAfter(const Graph& graph, const GraphIndex& index, int position) {
  const Node& node = graph.nodes()[static_cast<size_t>(position)];
  int earliest = -1;
  for (ValueId id : node.inputs) {
    earliest = std::max(earliest, index.producer(id));
  }
  for (ValueId id : node.outputs) {
    for (int reader : index.readers(graph.value(id).alias.of)) {
      if (reader != position) earliest = std::max(earliest, reader);
    }
    // A result that is read in this run pins the node to its place.
    if (!index.readers(id).empty()) return position - 1;
  }
  return earliest;
}

}  // namespace

absl::Status ScheduleUpdates(Graph& graph) {
  const GraphIndex index(graph);
  const size_t count = graph.nodes().size();
  // moved[k + 1]: positions of the nodes that go right after node k.
  std::vector<std::vector<size_t>> moved(count + 1);
  std::vector<bool> moves(count, false);
  for (size_t i = 0; i < count; ++i) {
    const Node& node = graph.nodes()[i];
    // Nodes with other results stay where their readers expect them.
    if (node.stage != Stage::kStep || !OnlyUpdates(graph, node)) continue;
    const int after = EarliestAfter(graph, index, static_cast<int>(i));
    moved[static_cast<size_t>(after + 1)].push_back(i);
    moves[i] = true;
  }
  std::vector<Node> old = std::move(graph.mutable_nodes());
  std::vector<Node>& nodes = graph.mutable_nodes();
  nodes.clear();
  for (size_t slot = 0; slot <= count; ++slot) {
    if (slot > 0 && !moves[slot - 1]) nodes.push_back(std::move(old[slot - 1]));
    for (size_t i : moved[slot]) nodes.push_back(std::move(old[i]));
  }
  return absl::OkStatus();
}

}  // namespace gpupool::engine
