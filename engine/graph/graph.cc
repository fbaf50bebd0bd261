#include "engine/graph/graph.h"

#include <limits>
#include <utility>

namespace gpupool::engine {
namespace {

// Returns for each value whether a compacted graph keeps it.
std::vector<bool> Mentioned(const Graph& graph) {
  std::vector<bool> keep(graph.values().size(), false);
  const auto mark = [&keep](ValueId id) {
    if (id.valid()) keep[static_cast<size_t>(id.index)] = true;
  };
  for (const Node& node : graph.nodes()) {
    for (ValueId id : node.inputs) mark(id);
    for (ValueId id : node.outputs) mark(id);
  }
  for (const GraphOutput& output : graph.outputs()) mark(output.value);
  for (const Value& value : graph.values()) {
    // Inputs and persistent values belong to the program's interface.
    if (value.kind == ValueKind::kInput ||
        value.kind == ValueKind::kPersistent) {
      mark(value.id);
    }
  }
  return keep;
}

}  // namespace

ValueId Graph::AddValue(Value value) {
  value.id = ValueId{static_cast<int32_t>(values_.size())};
  values_.push_back(std::move(value));
  return values_.back().id;
}

void Graph::AddOutput(absl::string_view name, ValueId value) {
  outputs_.push_back({std::string(name), value});
}

const Value* Graph::FindValue(absl::string_view name) const {
  for (const Value& value : values_) {
    if (value.name == name) return &value;
  }
  return nullptr;
}

std::optional<ValueId> Graph::FindOutput(absl::string_view name) const {
  for (const GraphOutput& output : outputs_) {
    if (output.name == name) return output.value;
  }
  return std::nullopt;
}

TensorTypes Graph::InputTypes(const Node& node) const {
  TensorTypes types;
  for (ValueId id : node.inputs) types.push_back(value(id).type());
  return types;
}

TensorTypes Graph::OutputTypes(const Node& node) const {
  TensorTypes types;
  for (ValueId id : node.outputs) types.push_back(value(id).type());
  return types;
}

// Values are renumbered first, then everything that refers to one.
void Graph::Compact() {
  const std::vector<bool> keep = Mentioned(*this);
  std::vector<ValueId> renamed(values_.size());
  std::vector<Value> kept;
  for (Value& value : values_) {
    const auto old = static_cast<size_t>(value.id.index);
    if (!keep[old]) continue;
    renamed[old] = ValueId{static_cast<int32_t>(kept.size())};
    value.id = renamed[old];
    kept.push_back(std::move(value));
  }
  const auto rename = [&renamed](ValueId& id) {
    if (id.valid()) id = renamed[static_cast<size_t>(id.index)];
  };
  values_ = std::move(kept);
  for (Value& value : values_) {
    rename(value.alias.of);
    // The value that it was an alias of is dropped.
    if (!value.alias.of.valid()) value.alias = {};
  }
  for (Node& node : nodes_) {
    for (ValueId& id : node.inputs) rename(id);
    for (ValueId& id : node.outputs) rename(id);
  }
  for (GraphOutput& output : outputs_) rename(output.value);
}

GraphIndex::GraphIndex(const Graph& graph)
    : producers_(graph.values().size(), -1),
      readers_(graph.values().size()),
      outputs_(graph.values().size(), false) {
  int position = 0;
  for (const Node& node : graph.nodes()) {
    for (ValueId id : node.inputs) {
      readers_[static_cast<size_t>(id.index)].push_back(position);
    }
    for (ValueId id : node.outputs) {
      producers_[static_cast<size_t>(id.index)] = position;
    }
    ++position;
  }
  for (const GraphOutput& output : graph.outputs()) {
    outputs_[static_cast<size_t>(output.value.index)] = true;
  }
}

bool SameBytesInAnyLayout(const Shape& shape) {
  return shape.rank() == 4 &&
         (shape[1] == 1 || (shape[2] == 1 && shape[3] == 1));
}

uint64_t NodeFlops(const Graph& graph, const Node& node) {
  return Flops(node.op, node.attributes, graph.InputTypes(node),
               graph.OutputTypes(node));
}

uint64_t GraphFlops(const Graph& graph) {
  uint64_t total = 0;
  for (const Node& node : graph.nodes()) {
    if (node.stage != Stage::kStep) continue;
    if (__builtin_add_overflow(total, NodeFlops(graph, node), &total)) {
      return std::numeric_limits<uint64_t>::max();
    }
  }
  return total;
}

}  // namespace gpupool::engine
