// Measures how long launches take on a device, for profiles. Between Start and
// Stop all work counts for the node that was marked last.
//
// Thread-safety: belongs to the compute thread. One timing at a time.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/runtime/profiler.h"

namespace gpupool::engine {

class LaunchTimer {
 public:
  virtual ~LaunchTimer() = default;

  virtual absl::Status Start() = 0;
  // Marks the beginning of `node`, a position in the graph; -1: the work that
  // follows belongs to no node.
  virtual absl::Status Mark(int node) = 0;
  // Ends the timing when the device has finished everything. Returns at most
  // one time for each mark, in the order of their beginnings. Nodes that gave
  // the device no work have none.
  virtual absl::StatusOr<std::vector<NodeTime>> Stop() = 0;
};

}  // namespace gpupool::engine
