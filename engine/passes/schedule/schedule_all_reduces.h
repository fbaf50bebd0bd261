// Places sums over ranks in an order of the nodes.
// - Every start comes right after the last gradient that it sends.
// - Nodes that depend on a wait come after all nodes that do not: one wait
//   after the other, each followed by the nodes that are then ready.
// - Starts keep the order of the graph, which must be the same on all ranks.
//
// Pure.
#pragma once

#include <vector>

#include "engine/graph/graph.h"

namespace gpupool::engine {

class AllReduceOrder {
 public:
  explicit AllReduceOrder(const Graph& graph);

  // Returns the order with sums placed; unchanged for a graph without
  // all-reduces. `order` holds positions of the graph's step nodes, minus
  // `first`, in an executable order.
  std::vector<int> Arrange(const std::vector<int>& order, int first) const;

 private:
  const Node& NodeAt(int position) const {
    return graph_.nodes()[static_cast<size_t>(position)];
  }
  bool waits(int position) const {
    return waits_[static_cast<size_t>(position)];
  }
  std::vector<int> WithStarts(const std::vector<int>& order) const;
  void AppendWaiting(std::vector<int> waiting, std::vector<int>& order) const;

  const Graph& graph_;
  const GraphIndex index_;
  std::vector<int> starts_;  // positions, in the order of the graph
  // For each position: whether it is a wait or depends on one.
  std::vector<bool> waits_;
  // For each position: nodes that must run first.
  std::vector<std::vector<int>> before_;
};

}  // namespace gpupool::engine
