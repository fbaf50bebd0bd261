// Computes nodes' times from records of a device's work. Each piece of work has
// the number of the call that queued it, and each call belongs to a node. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "engine/runtime/profiler.h"

namespace gpupool::engine::cuda {

class ActivityTimes {
 public:
  // Add a record. Records may come in any order.
  void AddCall(uint32_t call, int node) { nodes_[call] = node; }
  void AddWork(uint32_t call, int64_t begin_nanos, int64_t end_nanos) {
    works_.push_back({call, begin_nanos, end_nanos});
  }

  // Returns a time for each node, from the begin of its first piece of work to
  // the end of its last, ordered by begin. Ignores work whose call is unknown.
  std::vector<NodeTime> Times() const;

 private:
  struct Work {
    uint32_t call;
    int64_t begin_nanos, end_nanos;
  };
  absl::flat_hash_map<uint32_t, int> nodes_;
  std::vector<Work> works_;
};

}  // namespace gpupool::engine::cuda
