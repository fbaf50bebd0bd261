#include "engine/passes/schedule/schedule_loads.h"

#include <utility>
#include <vector>

namespace gpupool::engine {
namespace {

// Orders the load nodes depth first, from those that no load node reads.
class LoadOrder {
 public:
  explicit LoadOrder(const Graph& graph) : graph_(graph), index_(graph) {
    while (count_ < static_cast<int>(graph.nodes().size()) &&
           At(count_).stage == Stage::kLoad) {
      ++count_;
    }
    placed_.assign(static_cast<size_t>(count_), false);
  }

  std::vector<int> Find() {
    for (int i = 0; i < count_; ++i) {
      if (!IsAwaited(i)) Place(i);
    }
    return std::move(order_);
  }

 private:
  const Node& At(int position) const {
    return graph_.nodes()[static_cast<size_t>(position)];
  }

  bool IsAwaited(int position) const {
    for (const ValueId id : At(position).outputs) {
      for (const int reader : index_.readers(id)) {
        if (reader < count_) return true;
      }
    }
    return false;
  }

  // Appends the producers of the node's inputs, then the node.
  void Place(int position) {
    std::vector<std::pair<int, size_t>> path{{position, 0}};
    while (!path.empty()) {
      auto& [node, next] = path.back();
      const ValueIds& inputs = At(node).inputs;
      if (next < inputs.size()) {
        const int producer = index_.producer(inputs[next++]);
        if (producer >= 0 && !placed_[static_cast<size_t>(producer)]) {
          path.push_back({producer, 0});
        }
        continue;
      }
      if (!placed_[static_cast<size_t>(node)]) order_.push_back(node);
      placed_[static_cast<size_t>(node)] = true;
      path.pop_back();
    }
  }

  const Graph& graph_;
  const GraphIndex index_;
  int count_ = 0;  // number of load nodes
  std::vector<bool> placed_;
  std::vector<int> order_;
};

}  // namespace

absl::Status ScheduleLoads(Graph& graph) {
  const std::vector<int> order = LoadOrder(graph).Find();
  std::vector<Node>& nodes = graph.mutable_nodes();
  std::vector<Node> loads;
  for (const int position : order) {
    loads.push_back(std::move(nodes[static_cast<size_t>(position)]));
  }
  for (size_t i = 0; i < loads.size(); ++i) nodes[i] = std::move(loads[i]);
  return absl::OkStatus();
}

}  // namespace gpupool::engine
