#include "engine/passes/schedule/schedule_all_reduces.h"

#include <algorithm>
#include <utility>

namespace gpupool::engine {
namespace {

// Returns the nodes that must run before the one at `position`: writers of its
// inputs, and readers of values that it overwrites.
std::vector<int> Predecessors(const Graph& graph, const GraphIndex& index,
                              int position) {
  const Node& node = graph.nodes()[static_cast<size_t>(position)];
  std::vector<int> before;
  for (const ValueId id : node.inputs) {
    if (index.producer(id) >= 0) before.push_back(index.producer(id));
  }
  for (const ValueId id : node.outputs) {
    const Alias& alias = graph.value(id).alias;
    if (alias.kind != AliasKind::kUpdate) continue;
    for (const int reader : index.readers(alias.of)) {
      if (reader != position) before.push_back(reader);
    }
  }
  return before;
}

}  // namespace

AllReduceOrder::AllReduceOrder(const Graph& graph)
    : graph_(graph), index_(graph) {
  const int count = static_cast<int>(graph.nodes().size());
  for (int i = 0; i < count; ++i) {
    before_.push_back(Predecessors(graph, index_, i));
    bool waits = NodeAt(i).op == Op::kAllReduceWait;
    for (const int other : before_.back()) {
      waits = waits || (other < i && waits_[static_cast<size_t>(other)]);
    }
    waits_.push_back(waits);
    if (NodeAt(i).op == Op::kAllReduceStart && !waits) starts_.push_back(i);
  }
}

std::vector<int> AllReduceOrder::Arrange(const std::vector<int>& order,
                                         int first) const {
  // Communication overlaps with everything that needs no sum, so that runs
  // between the starts and the waits.
  if (starts_.empty()) return order;
  std::vector<int> early, waiting;
  for (const int task : order) {
    (waits(task + first) ? waiting : early).push_back(task + first);
  }
  std::vector<int> arranged = WithStarts(early);
  AppendWaiting(std::move(waiting), arranged);
  for (int& position : arranged) position -= first;
  return arranged;
}

std::vector<int> AllReduceOrder::WithStarts(
    const std::vector<int>& order) const {
  std::vector<int> others;
  std::vector<int> place(graph_.nodes().size(), -1);  // in `others`
  for (const int position : order) {
    if (std::binary_search(starts_.begin(), starts_.end(), position)) continue;
    place[static_cast<size_t>(position)] = static_cast<int>(others.size());
    others.push_back(position);
  }
  std::vector<int> result;
  size_t next = 0;  // position in `others`
  // Starts may not pass each other: a late gradient also delays the starts that
  // follow in the graph.
  for (const int start : starts_) {
    int last = -1;
    for (const int other : before_[static_cast<size_t>(start)]) {
      last = std::max(last, place[static_cast<size_t>(other)]);
    }
    while (static_cast<int>(next) <= last) result.push_back(others[next++]);
    result.push_back(start);
  }
  result.insert(result.end(), others.begin() + static_cast<int64_t>(next),
                others.end());
  return result;
}

void AllReduceOrder::AppendWaiting(std::vector<int> waiting,
                                   std::vector<int>& order) const {
  std::vector<int> all_waits;
  for (const int position : waiting) {
    if (NodeAt(position).op == Op::kAllReduceWait) {
      all_waits.push_back(position);
    }
  }
  std::sort(all_waits.begin(), all_waits.end());
  std::vector<bool> done(graph_.nodes().size(), false);
  for (const int position : order) done[static_cast<size_t>(position)] = true;
  const auto ready = [&](int position) {
    const std::vector<int>& before = before_[static_cast<size_t>(position)];
    return std::all_of(before.begin(), before.end(), [&](int other) {
      return done[static_cast<size_t>(other)] ||
             NodeAt(other).stage == Stage::kLoad;
    });
  };
  for (const int wait : all_waits) {
    order.push_back(wait);
    done[static_cast<size_t>(wait)] = true;
    std::vector<int> later;
    for (const int position : waiting) {
      if (position == wait) continue;
      if (NodeAt(position).op == Op::kAllReduceWait || !ready(position)) {
        later.push_back(position);
        continue;
      }
      order.push_back(position);
      done[static_cast<size_t>(position)] = true;
    }
    waiting = std::move(later);
  }
}

}  // namespace gpupool::engine
