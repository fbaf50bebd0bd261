// Where sums over ranks stand in an order of the nodes: every start right
// behind the last gradient that it sends, and what depends on a wait behind
// everything that does not, one wait after the other, each followed by what is
// ready then. Starts keep the order of the graph: it must be the same on all
// ranks. Pure.
#pragma once

#include <vector>

#include "engine/graph/graph.h"

namespace gpupool::engine {

class AllReduceOrder {
 public:
  explicit AllReduceOrder(const Graph& graph);

  // `order`: positions of the graph's step nodes, less `first`, in an order in
  // which they could run. Returns it unchanged for a graph without all-reduces.
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
  // By position: is a wait or depends on one.
  std::vector<bool> waits_;
  std::vector<std::vector<int>> before_;  // by position: what must run first
};

}  // namespace gpupool::engine
