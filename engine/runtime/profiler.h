// Times of a program's nodes in profiled runs, as a table of totals or as a
// Chrome trace (chrome://tracing, Perfetto). A plain value; belongs to one
// thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/graph/graph.h"

namespace gpupool::engine {

struct NodeTime {
  int node = 0;  // position in the graph
  int64_t begin_nanos = 0;
  int64_t end_nanos = 0;
  int run = 0;
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

  void Add(int node, int64_t begin_nanos, int64_t end_nanos);
  void EndRun() { ++runs_; }

  int runs() const { return runs_; }
  // Returns the nodes that ran, the slowest first.
  std::vector<NodeTotal> Totals() const;
  // Returns lines "share, microseconds per run, GFLOP/s, op, layer".
  std::string Table(const Graph& graph) const;
  // Returns the trace event format: one complete event for each node and traced
  // run.
  std::string ChromeTrace(const Graph& graph) const;

 private:
  int traced_runs_;
  int runs_ = 0;
  std::vector<NodeTotal> totals_;  // by node
  std::vector<NodeTime> times_;
};

}  // namespace gpupool::engine
