#include "engine/passes/simplify/fold_constants.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "engine/backends/reference/interpreter.h"
#include "engine/base/status_macros.h"
#include "engine/passes/rewrite/rewrite.h"

namespace gpupool::engine {
namespace {

bool CanFold(const Graph& graph, const Node& node) {
  // Without inputs the loop below would take any node for constant.
  if (!Info(node.op).pure || node.inputs.empty()) return false;
  int64_t read = 0;
  for (ValueId id : node.inputs) {
    const Value& value = graph.value(id);
    if (value.kind != ValueKind::kConstant) return false;
    // A constant of one number may have more elements than memory has room for.
    read += std::min(value.shape.elements(), kMaxFoldedInputs + 1);
    if (read > kMaxFoldedInputs) return false;
  }
  for (ValueId id : node.outputs) {
    const Value& value = graph.value(id);
    if (value.shape.elements() > kMaxFoldedElements ||
        value.layout != Layout::kRowMajor) {
      return false;
    }
  }
  return true;
}

// Returns the operations that it takes to fold the node.
double WorkOf(const Graph& graph, const Node& node) {
  double work = static_cast<double>(NodeFlops(graph, node));
  for (const ValueIds* ids : {&node.inputs, &node.outputs}) {
    for (ValueId id : *ids) {
      work += static_cast<double>(graph.value(id).shape.elements());
    }
  }
  return work;
}

// Returns a graph of this node alone.
Graph Extract(const Graph& graph, const Node& node) {
  Graph single;
  Node copy = node;
  for (ValueId& id : copy.inputs) id = single.AddValue(graph.value(id));
  for (ValueId& id : copy.outputs) {
    Value value = graph.value(id);
    value.kind = ValueKind::kIntermediate;
    value.alias = {};
    id = single.AddValue(std::move(value));
    single.AddOutput(single.value(id).name, id);
  }
  copy.stage = Stage::kStep;
  single.AddNode(std::move(copy));
  return single;
}

// Computes the node with the reference kernels and turns its outputs into
// constants. Numbers are rounded to the value's type, as at run time.
absl::Status Fold(Graph& graph, const Node& node) {
  const Graph single = Extract(graph, node);
  reference::NamedNumbers persistents;
  ASSIGN_OR_RETURN(
      reference::NamedNumbers results,
      reference::Run(single, {}, persistents, {.round_to_dtype = true}));
  for (ValueId id : node.outputs) {
    Value& value = graph.mutable_value(id);
    value.kind = ValueKind::kConstant;
    value.memory_class = MemoryClass::kIo;
    value.alias = {};
    value.constant = std::move(results[value.name]);
  }
  return absl::OkStatus();
}

// Removes reshapes: reshape(reshape(x)) reads x, and a reshape to the same
// shape is x.
void SimplifyReshapes(Graph& graph) {
  const GraphIndex index(graph);
  std::vector<ValueId> replaced = Identity(graph);
  std::vector<bool> drop(graph.nodes().size(), false);
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    Node& node = graph.mutable_nodes()[i];
    for (ValueId& id : node.inputs) id = Resolve(replaced, id);
    if (node.op != Op::kReshape) continue;
    const int producer = index.producer(node.inputs[0]);
    if (producer >= 0) {
      const Node& before = graph.nodes()[static_cast<size_t>(producer)];
      if (before.op == Op::kReshape) node.inputs[0] = before.inputs[0];
    }
    const ValueId y = node.outputs[0];
    if (graph.value(y).shape == graph.value(node.inputs[0]).shape) {
      replaced[static_cast<size_t>(y.index)] = node.inputs[0];
      drop[i] = true;
    }
  }
  ApplyReplacements(graph, replaced);
  DropNodes(graph, drop);
}

}  // namespace

absl::Status FoldConstants(Graph& graph) {
  std::vector<bool> drop(graph.nodes().size(), false);
  double work = kMaxFoldedWork;
  for (size_t i = 0; i < graph.nodes().size(); ++i) {
    const Node node = graph.nodes()[i];
    if (!CanFold(graph, node)) continue;
    const double needed = WorkOf(graph, node);
    if (needed > work) continue;
    work -= needed;
    RETURN_IF_ERROR(Fold(graph, node));
    drop[i] = true;
  }
  DropNodes(graph, drop);
  SimplifyReshapes(graph);
  return absl::OkStatus();
}

}  // namespace gpupool::engine
