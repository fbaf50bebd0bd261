#include "engine/runtime/arena_use.h"

#include <algorithm>

#include "engine/base/align.h"
#include "engine/graph/graph.h"
#include "engine/plan/liveness.h"
#include "engine/runtime/program.h"

namespace gpupool::engine {
namespace {

const char* ClassName(MemoryClass memory_class) {
  switch (memory_class) {
    case MemoryClass::kIo:
      return "input";
    case MemoryClass::kWeight:
      return "weight";
    case MemoryClass::kState:
      return "state";
    case MemoryClass::kOptimizer:
      return "optimizer";
    case MemoryClass::kGradient:
      return "gradient";
    case MemoryClass::kActivation:
      return "activation";
  }
  return "activation";
}

// Returns the bytes of buffers and scratch that live during each node.
std::vector<uint64_t> LiveBytes(const Program& program) {
  const size_t nodes = program.graph().nodes().size();
  // First holds changes: the bytes that begin at a node minus those that ended
  // before it. Changes may wrap around; their sums are right.
  std::vector<uint64_t> live(nodes + 2, 0);
  for (const Buffer& buffer : program.liveness().buffers) {
    if (buffer.place != Place::kArena) continue;
    const uint64_t bytes = AlignUp(buffer.bytes);
    live[static_cast<size_t>(buffer.lifetime.first)] += bytes;
    live[static_cast<size_t>(buffer.lifetime.last) + 1] -= bytes;
  }
  for (size_t i = 1; i < live.size(); ++i) live[i] += live[i - 1];
  live.resize(nodes);
  for (const Launch& launch : program.launches()) {
    live[static_cast<size_t>(launch.node)] +=
        AlignUp(launch.kernel->workspace_bytes());
  }
  return live;
}

LiveValue Describe(const Graph& graph, const GraphIndex& index,
                   const Buffer& buffer) {
  const Value& root = graph.value(buffer.root);
  LiveValue live = {.name = root.name,
                    .kind = ClassName(buffer.memory_class),
                    .bytes = AlignUp(buffer.bytes)};
  const int producer = index.producer(buffer.root);
  if (producer < 0) return live;
  const Node& node = graph.nodes()[static_cast<size_t>(producer)];
  live.layer = node.source;
  live.op = std::string(OpName(node.op));
  return live;
}

// Returns everything that lives during the node, largest first.
std::vector<LiveValue> LiveValues(const Program& program, int node) {
  const Graph& graph = program.graph();
  const GraphIndex index(graph);
  std::vector<LiveValue> values;
  for (const Buffer& buffer : program.liveness().buffers) {
    if (buffer.place != Place::kArena || buffer.bytes == 0) continue;
    if (!buffer.lifetime.Overlaps({node, node})) continue;
    values.push_back(Describe(graph, index, buffer));
  }
  for (const Launch& launch : program.launches()) {
    const uint64_t bytes = launch.kernel->workspace_bytes();
    if (launch.node != node || bytes == 0) continue;
    const Node& owner = graph.nodes()[static_cast<size_t>(node)];
    values.push_back({.layer = owner.source,
                      .op = std::string(OpName(owner.op)),
                      .kind = "workspace",
                      .bytes = AlignUp(bytes)});
  }
  std::stable_sort(
      values.begin(), values.end(),
      [](const LiveValue& a, const LiveValue& b) { return a.bytes > b.bytes; });
  return values;
}

}  // namespace

ArenaUse ArenaUseOf(const Program& program, size_t most_values) {
  ArenaUse use;
  use.live_bytes = LiveBytes(program);
  for (const Launch& launch : program.launches()) {
    const auto node = static_cast<size_t>(launch.node);
    if (program.graph().nodes()[node].stage != Stage::kStep) continue;
    if (use.peak_node < 0 || use.live_bytes[node] > use.peak_bytes()) {
      use.peak_node = launch.node;
    }
  }
  if (use.peak_node < 0) return use;
  use.largest = LiveValues(program, use.peak_node);
  if (use.largest.size() > most_values) use.largest.resize(most_values);
  return use;
}

}  // namespace gpupool::engine
