// What must be done: the output of Step(). Imperative; whoever performs an
// action decides nothing. An action may be performed twice (after a crash
// between commit and performing) without harm: attempt and load numbers fence.
#pragma once

#include <cstdint>
#include <variant>

#include "absl/time/time.h"
#include "scheduler/state/types.h"

namespace gpupool::scheduler {

// Start one rank of the attempt on the device, from the job's last checkpoint
// if any.
struct StartJob {
  AttemptRef attempt;
  DeviceId device;
  uint64_t limit_bytes = 0;
  uint32_t rank = 0;
  uint32_t ranks = 1;  // of the attempt; each has a StartJob of its own
};

// One rank of the attempt, answered by its AttemptEnded.
struct StopJob {
  AttemptRef attempt;
  DeviceId device;
  StopReason reason = StopReason::kCancelled;
};

// Make a version of the job's last checkpoint and ask to load it. Answered by
// VersionCreated and VersionLoadRequested.
struct CreateVersion {
  JobId job;
};

// Answered by VersionLoaded or VersionLoadFailed with the same `load`.
struct LoadVersion {
  VersionId version;
  DeviceId device;
  uint64_t load = 0;
  uint64_t limit_bytes = 0;
};

// The version is on the device and answers requests from now on.
struct ServeVersion {
  VersionId version;
  DeviceId device;
};

// Let no new request in; answered by VersionDrained.
struct DrainVersion {
  VersionId version;
  DeviceId device;
};

// Give the version's bytes back. Answered by VersionUnloaded.
struct UnloadVersion {
  VersionId version;
  DeviceId device;
};

// Send TimerFired at `time` or a little later. Adds to earlier timers.
struct SetTimer {
  absl::Time time;
};

using Action =
    std::variant<StartJob, StopJob, CreateVersion, LoadVersion, ServeVersion,
                 DrainVersion, UnloadVersion, SetTimer>;

}  // namespace gpupool::scheduler
