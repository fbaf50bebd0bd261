#include "engine/plan/liveness.h"

#include <algorithm>

#include "engine/base/check.h"

namespace gpupool::engine {
namespace {

ValueId RootOf(const Graph& graph, ValueId id) {
  while (graph.value(id).alias.kind != AliasKind::kNone) {
    id = graph.value(id).alias.of;
  }
  return id;
}

Place PlaceOf(const Value& root) {
  switch (root.kind) {
    case ValueKind::kPersistent:
      return Place::kPersistent;
    case ValueKind::kConstant:
    case ValueKind::kDerived:
      return Place::kResident;
    case ValueKind::kInput:
    case ValueKind::kIntermediate:
      return Place::kArena;
  }
  return Place::kArena;
}

int FirstStep(const Graph& graph) {
  int position = 0;
  for (const Node& node : graph.nodes()) {
    if (node.stage == Stage::kStep) return position;
    ++position;
  }
  return position;
}

// Returns whether no step reads it: load nodes make it for each other.
bool IsForLoadOnly(const Graph& graph, const Buffer& buffer, int first_step) {
  return graph.value(buffer.root).kind == ValueKind::kDerived &&
         buffer.lifetime.last < first_step;
}

// Returns the lifetime of one value without its aliases.
Lifetime LifetimeOf(const Graph& graph, const GraphIndex& index, ValueId id,
                    int first_step) {
  const int producer = index.producer(id);
  // Values without a producer must exist before the first step.
  const int first = producer < 0 ? first_step : producer;
  Lifetime lifetime{first, first};
  const auto readers = index.readers(id);
  if (!readers.empty()) lifetime.last = std::max(first, readers.back());
  if (index.is_output(id)) {
    lifetime.last = static_cast<int>(graph.nodes().size());
  }
  return lifetime;
}

bool IsUsed(const Value& value, const GraphIndex& index) {
  return value.kind == ValueKind::kInput ||
         value.kind == ValueKind::kPersistent || index.is_output(value.id) ||
         index.producer(value.id) >= 0 || !index.readers(value.id).empty();
}

}  // namespace

Liveness AnalyseLiveness(const Graph& graph) {
  const GraphIndex index(graph);
  const int first_step = FirstStep(graph);
  Liveness result;
  result.buffer_of.assign(graph.values().size(), -1);
  for (const Value& value : graph.values()) {
    if (!IsUsed(value, index)) continue;
    const ValueId root = RootOf(graph, value.id);
    int& slot = result.buffer_of[static_cast<size_t>(root.index)];
    const Lifetime lifetime = LifetimeOf(graph, index, value.id, first_step);
    // The first member opens the buffer, the others extend its lifetime.
    if (slot < 0) {
      const Value& at = graph.value(root);
      slot = static_cast<int>(result.buffers.size());
      result.buffers.push_back(
          {root, PlaceOf(at), at.bytes(), at.memory_class, lifetime});
    }
    Buffer& buffer = result.buffers[static_cast<size_t>(slot)];
    buffer.bytes = std::max(buffer.bytes, value.bytes());
    buffer.lifetime.first = std::min(buffer.lifetime.first, lifetime.first);
    buffer.lifetime.last = std::max(buffer.lifetime.last, lifetime.last);
    result.buffer_of[static_cast<size_t>(value.id.index)] = slot;
  }
  // Decided last, because it needs the complete lifetimes.
  for (Buffer& buffer : result.buffers) {
    if (IsForLoadOnly(graph, buffer, first_step)) buffer.place = Place::kArena;
  }
  return result;
}

}  // namespace gpupool::engine
