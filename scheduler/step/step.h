// The scheduler: one pure function from (state, event, time) to (state,
// actions). No clock, no random numbers, no I/O: the same inputs give the same
// outputs, so a whole cluster can be simulated from a seed.
//
// Job states and what moves them (anything else changes nothing):
//
//   QUEUED ------> STARTING    there is room: StartJob
//   STARTING ----> RUNNING     the worker has begun
//   STARTING, RUNNING -> SUCCEEDED, FAILED         as the worker says
//   STARTING, RUNNING -> BACKING_OFF               interrupted, worker lost
//   STARTING, RUNNING -> QUEUED     stopped: a drain, another job, a hold
//   QUEUED, BACKING_OFF -> FAILED   a limit of time, a job that it waits for
//   STARTING, RUNNING -> FAILED     told to stop at a limit of time
//   BACKING_OFF -> QUEUED      its time has come, or it is queued again
//   BACKING_OFF, STARTING, RUNNING -> FAILED       max_attempts failures
//   STARTING, RUNNING -> FAILED     devices fail under it, one after another
//   BACKING_OFF, QUEUED -> RUNNING                 the worker is back with it
//   BACKING_OFF, QUEUED -> SUCCEEDED, FAILED       a late report of its end
//   any but ended -> CANCELLED, through CANCELLING while an attempt is live
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/container/btree_set.h"
#include "absl/time/time.h"
#include "scheduler/state/state.h"
#include "scheduler/step/action.h"
#include "scheduler/step/event.h"

namespace gpupool::scheduler {

struct JobChange {
  JobId job;
  uint32_t attempt = 0;  // after the change
  JobState from = JobState::kQueued;
  JobState to = JobState::kQueued;
  std::string reason;  // for people
};

// A running job was told to checkpoint and make room.
struct Preemption {
  JobId job;
  std::optional<JobId> gives_way_to;
  std::optional<VersionId> yields_to;  // with kServing
  PreemptionReason reason = PreemptionReason::kOrder;
  std::optional<DeviceId> reserved_device;  // with kReservation
};

struct StepResult {
  std::vector<Action> actions;  // in the order to perform, after the commit
  std::vector<JobChange> job_changes;  // in order
  std::vector<Preemption> preemptions;
  // Jobs, versions and devices whose rows in the store have changed.
  absl::btree_set<JobId> changed_jobs;
  absl::btree_set<VersionId> changed_versions;
  absl::btree_set<DeviceId> changed_devices;
  // The event was about something that is over (an earlier attempt, an ended
  // job, an older load). It must leave no trace.
  bool stale = false;
  // Jobs that failed because devices failed under them again and again.
  std::vector<JobId> blamed;
};

// Time for which a live attempt that a worker does not list may still be
// explained by the worker's spooled reports.
inline constexpr absl::Duration kMissingAttemptGrace = absl::Seconds(2);
// The longest wait before another attempt.
inline constexpr absl::Duration kLongestBackoff = absl::Minutes(5);
// Wait before a version whose worker gave no answer is placed again.
inline constexpr absl::Duration kVersionRetryDelay = absl::Seconds(2);

// Cool-down of a device after its first fault. No job starts there meanwhile.
// Each further consecutive fault doubles it, up to kLongestCooldown. The count
// starts anew after a job that ends well there, or after kFaultMemory without a
// fault.
inline constexpr absl::Duration kFirstCooldown = absl::Seconds(10);
inline constexpr absl::Duration kLongestCooldown = absl::Minutes(10);
inline constexpr absl::Duration kFaultMemory = absl::Hours(1);
// A version fails to load when its device's worker has ended kMostWorkerEnds
// times while it loaded or ran the version. The count starts anew when somebody
// asks to load the version, and after kFaultMemory without such an end.
inline constexpr uint32_t kMostWorkerEnds = 2;
// A job is to blame when kBlameDevices different devices have failed under it
// without a checkpoint in between, or when it has met kBlameFaults faults.
inline constexpr size_t kBlameDevices = 3;
inline constexpr size_t kBlameFaults = 6;

// Applies the event to the state. `now` must not go backwards between calls.
// Never fails: an event that makes no sense is stale.
StepResult Step(State& state, const Event& event, absl::Time now);

// Returns the wait after `failures` >= 1 failures: first, 2 * first, 4 * first,
// ... up to kLongestBackoff.
absl::Duration Backoff(absl::Duration first, uint32_t failures);

}  // namespace gpupool::scheduler
