// How long launches take on a device, for profiles: between Start and Stop all
// work belongs to the node that was marked last.
//
// Thread-safety: the compute thread's. One timing at a time.
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
  // `node` is a position in the graph; -1: what follows is no node's.
  virtual absl::Status Mark(int node) = 0;
  // The device has done everything. At most one time for each mark, in the
  // order of their beginnings; nodes that gave the device nothing have none.
  // The clock is the timer's own and may begin anew with each timing.
  virtual absl::StatusOr<std::vector<NodeTime>> Stop() = 0;
};

}  // namespace gpupool::engine
