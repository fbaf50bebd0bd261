// Times of a program's nodes in profiled runs, as a table of totals or, for
// several programs together, as a Chrome trace (chrome://tracing, Perfetto).
// Plain values; each belongs to one thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "engine/graph/graph.h"
#include "engine/runtime/arena_use.h"

namespace gpupool::engine {

// Returns the bytes of all operands and results of a node.
uint64_t NodeBytes(const Graph& graph, const Node& node);

struct NodeTime {
  int node = 0;  // position in the graph
  int64_t begin_nanos = 0;
  int64_t end_nanos = 0;
  int run = 0;
  // Device memory that the allocator gave to the program's holder, when the
  // node was launched.
  uint64_t held_bytes = 0;
};

struct NodeTotal {
  int node = 0;
  uint64_t runs = 0;
  int64_t nanos = 0;
};

class Profile {
 public:
  // Keeps the individual times of the first `traced_runs` runs; totals count
  // all.
  explicit Profile(int traced_runs = 10) : traced_runs_(traced_runs) {}

  void Add(int node, int64_t begin_nanos, int64_t end_nanos,
           uint64_t held_bytes = 0);
  void EndRun() { ++runs_; }

  int runs() const { return runs_; }
  // Returns the nodes that ran, the slowest first.
  std::vector<NodeTotal> Totals() const;
  // Returns lines "share, microseconds per run, GFLOP/s, op, layer".
  std::string Table(const Graph& graph) const;
  // Returns the times of the traced runs, in the order of Add.
  const std::vector<NodeTime>& times() const { return times_; }

 private:
  int traced_runs_;
  int runs_ = 0;
  std::vector<NodeTotal> totals_;  // by node
  std::vector<NodeTime> times_;
};

// A program of a trace. All times of a trace must be of one clock.
struct TracedProgram {
  std::string name;
  const Graph* graph = nullptr;
  const Profile* profile = nullptr;
  // The plan of its memory; null: the trace has no memory.
  const ArenaUse* arena = nullptr;
  // Bytes of the arena, and the planned bytes beside it.
  uint64_t arena_bytes = 0;
  uint64_t outside_bytes = 0;
};

// Returns the trace event format. Each program is a thread of its name, with
// one complete event for each node and traced run, with the FLOPs of the node
// and the bytes of its operands and results. Times begin at 0.
//
// With memory, two counters, "planned bytes" and "measured bytes", have an
// event before the node's own event at the beginning of each run and when they
// change. An instant event, "planned peak", is at the node of the peak in the
// first traced run. It has the largest values that live there.
std::string ChromeTrace(absl::Span<const TracedProgram> programs);

}  // namespace gpupool::engine
