// Nodes' times out of what a device did: each piece of work carries the number
// of the call that queued it, and each call belongs to a node. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "engine/runtime/profiler.h"

namespace gpupool::engine::cuda {

class ActivityTimes {
 public:
  // Records come in any order.
  void AddCall(uint32_t call, int node) { nodes_[call] = node; }
  void AddWork(uint32_t call, int64_t begin_nanos, int64_t end_nanos) {
    works_.push_back({call, begin_nanos, end_nanos});
  }

  // For each node from the beginning of its first piece of work to the end of
  // its last; in the order of beginnings. Work of no known call is left out.
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
