#include "engine/passes/schedule/hoist.h"

#include <algorithm>

#include "engine/passes/rewrite/rewrite.h"

namespace gpupool::engine {
namespace {

bool CanHoist(const Graph& graph, const GraphIndex& index, const Node& node) {
  if (node.stage != Stage::kStep || !Info(node.op).pure ||
      node.inputs.empty()) {
    return false;
  }
  uint64_t before = 0;
  for (const ValueId id : node.inputs) {
    if (!IsKnownAtLoad(graph.value(id))) return false;
    before += graph.value(id).bytes();
  }
  uint64_t after = 0;
  for (const ValueId id : node.outputs) {
    if (index.is_output(id)) return false;
    after += graph.value(id).bytes();
  }
  // A broadcast weight, for example, is cheap to make again and large to keep.
  return after <= kMaxHoistedBytes || after <= before * kMaxHoistedGrowth;
}

}  // namespace

absl::Status Hoist(Graph& graph) {
  if (HasUpdates(graph)) return absl::OkStatus();
  const GraphIndex index(graph);
  for (Node& node : graph.mutable_nodes()) {
    if (!CanHoist(graph, index, node)) continue;
    node.stage = Stage::kLoad;
    for (const ValueId id : node.outputs) {
      Value& value = graph.mutable_value(id);
      value.kind = ValueKind::kDerived;
      value.memory_class = MemoryClass::kWeight;
    }
  }
  MoveLoadNodesFirst(graph);
  return absl::OkStatus();
}

}  // namespace gpupool::engine
