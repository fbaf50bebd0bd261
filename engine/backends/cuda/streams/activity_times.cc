#include "engine/backends/cuda/streams/activity_times.h"

#include <algorithm>

namespace gpupool::engine::cuda {

std::vector<NodeTime> ActivityTimes::Times() const {
  absl::flat_hash_map<int, NodeTime> spans;
  for (const Work& work : works_) {
    const auto node = nodes_.find(work.call);
    // Work between marks belongs to no node.
    if (node == nodes_.end() || node->second < 0) continue;
    const NodeTime fresh{node->second, work.begin_nanos, work.end_nanos, 0};
    const auto [at, added] = spans.emplace(node->second, fresh);
    if (added) continue;
    NodeTime& span = at->second;
    span.begin_nanos = std::min(span.begin_nanos, work.begin_nanos);
    span.end_nanos = std::max(span.end_nanos, work.end_nanos);
  }
  std::vector<NodeTime> times;
  for (const auto& [node, span] : spans) times.push_back(span);
  std::sort(
      // Hash maps have no order, so the times are sorted.
      times.begin(), times.end(), [](const NodeTime& a, const NodeTime& b) {
        return a.begin_nanos != b.begin_nanos ? a.begin_nanos < b.begin_nanos
                                              : a.node < b.node;
      });
  return times;
}

}  // namespace gpupool::engine::cuda
