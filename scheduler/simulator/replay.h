// Replays a trace in virtual time through the server's scheduler: Step()
// decides, and simulated devices carry it out. A job runs for as long as the
// trace says. Each resumption costs restart_cost, while the job holds its
// devices.
//
// Thread-safety: none. Pure: the same trace and options give the same result.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "scheduler/simulator/trace.h"
#include "scheduler/state/order_policy.h"

namespace gpupool::scheduler {

struct ReplayOptions {
  uint32_t nodes = 1;
  uint32_t devices_per_node = 8;
  QueuePolicy policy;
  // Shows run times to the policy (kShortestRemaining), since a training loop
  // knows its steps. Otherwise no policy sees a run time.
  bool run_times_known = false;
  // Checks all invariants after every event. Slow.
  bool check_invariants = false;
};

// Result of one job.
struct ReplayedJob {
  absl::Duration completion;  // from submission to end
  absl::Duration wait;        // part of it without devices
  uint32_t preemptions = 0;
};

// State of the pool at one moment.
struct ReplaySample {
  absl::Duration at;
  uint32_t busy_devices = 0;
  uint32_t queued_jobs = 0;
};

struct ReplayResult {
  std::vector<ReplayedJob> jobs;      // in the order of the trace
  std::vector<ReplaySample> samples;  // at most a few thousand, evenly spread
  absl::Duration makespan;            // from the first submission to the end
  double utilization = 0;  // used / available device time, up to the makespan
  // The same from the first submission to the last one, the period for which
  // the load of a generated trace is set.
  double arrival_utilization = 0;
  // Idle device time while jobs waited / all device time while jobs waited: the
  // part that packing and order could not use.
  double fragmentation = 0;
  uint64_t preemptions = 0;  // stops that made room, including moves
  uint64_t moves = 0;
  uint64_t events = 0;  // calls of Step
};

// Function that is called now and then with the share of jobs that have ended.
// Returning false ends the replay.
using ReplayProgress = absl::FunctionRef<bool(double)>;

// Returns the result of the replay. InvalidArgument when a job needs more
// devices than there are. Cancelled when `progress` returns false. Internal
// when an invariant breaks or jobs wait for ever.
absl::StatusOr<ReplayResult> ReplayTrace(absl::Span<const TraceJob> trace,
                                         const ReplayOptions& options,
                                         ReplayProgress progress);

}  // namespace gpupool::scheduler
