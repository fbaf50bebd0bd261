// Checks what must hold for a State after every event, and for every change of
// a job's state. For tests, the simulation and `admin check`; scheduling itself
// never needs it.
//
// Thread-safety: as State.
#pragma once

#include "absl/status/status.h"
#include "scheduler/state/state.h"
#include "scheduler/state/types.h"
#include "scheduler/step/step.h"

namespace gpupool::scheduler {

// Returns OK, or Internal that names the first broken rule of these:
//   * what is placed on a device fits its limit, and the counters are the
//     sums of what they count
//   * a job has ranks exactly while it is live: one for each device that it
//     needs, on distinct devices of one kind, and one at least has not ended
//   * a device has one job that needs several devices at most
//   * a job is on a device exactly while its rank there has not ended
//   * nothing is on a device whose worker was lost (`ready` false), unless
//     the state was just restored (`restoring`)
//   * the queue holds exactly the QUEUED jobs, in order
//   * of an array no more tasks are live or in the queue than may run at once,
//     and none stands aside while there is a place
//   * a job that has not ended has failures left; BACKING_OFF has a wake time
//   * a version is on a device exactly while it may hold bytes there
//   * a device has one reservation for a tenant at a time; while it lasts jobs
//     of others there have been told to stop
//   * a rank that has not ended is never at the same time a stray to be stopped
absl::Status CheckInvariants(const State& state, bool restoring = false);

// Returns OK when the state machine in step.h has this edge, else Internal.
absl::Status CheckChange(const JobChange& change);

}  // namespace gpupool::scheduler
