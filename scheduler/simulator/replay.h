// Replays a trace in virtual time through the scheduler that the server runs:
// Step() decides, and devices that are only counted carry it out. A job's run
// time is what the trace says; what a restart costs is charged whenever a job
// resumes, while it holds its devices.
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
#include "scheduler/order_policy.h"
#include "scheduler/simulator/trace.h"

namespace gpupool::scheduler {

struct ReplayOptions {
  uint32_t nodes = 1;
  uint32_t devices_per_node = 8;
  QueuePolicy policy;
  // The policy may use run times (kShortestRemaining): a training loop knows
  // its steps. Without this no policy ever sees one.
  bool run_times_known = false;
  // After every event all invariants are checked; slow.
  bool check_invariants = false;
};

// What became of one job.
struct ReplayedJob {
  absl::Duration completion;  // from submission to end
  absl::Duration wait;        // of that not on devices
  uint32_t preemptions = 0;
};

// The pool at one moment.
struct ReplaySample {
  absl::Duration at;
  uint32_t busy_devices = 0;
  uint32_t queued_jobs = 0;
};

struct ReplayResult {
  std::vector<ReplayedJob> jobs;      // as in the trace
  std::vector<ReplaySample> samples;  // at most a few thousand, evenly spread
  absl::Duration makespan;            // from the first submission to the end
  double utilization = 0;             // device time used / there, up to then
  // The same from the first submission to the last one: the time for which the
  // load of a generated trace is meant.
  double arrival_utilization = 0;
  // Device time that stood idle while jobs waited / all device time in which
  // jobs waited: what packing and order could not use.
  double fragmentation = 0;
  uint64_t preemptions = 0;  // stops that made room, moves among them
  uint64_t moves = 0;
  uint64_t events = 0;  // decisions: calls of Step
};

// Called now and then with the share of jobs that have ended. False ends the
// replay.
using ReplayProgress = absl::FunctionRef<bool(double)>;

// InvalidArgument when a job needs more devices than there are. Cancelled when
// `progress` said so. Internal when an invariant breaks or jobs are left
// waiting for ever.
absl::StatusOr<ReplayResult> ReplayTrace(absl::Span<const TraceJob> trace,
                                         const ReplayOptions& options,
                                         ReplayProgress progress);

}  // namespace gpupool::scheduler
