// Actions: the output of Step(). Whoever performs an action decides nothing. An
// action may be performed twice (after a crash between commit and performing)
// without harm, since attempt and load numbers fence off the second one.
#pragma once

#include <cstdint>
#include <variant>

#include "absl/time/time.h"
#include "scheduler/state/types.h"

namespace gpupool::scheduler {

// Starts one rank of the attempt on the device, from the job's last checkpoint
// if it has one.
struct StartJob {
  AttemptRef attempt;
  DeviceId device;
  uint64_t limit_bytes = 0;
  uint32_t rank = 0;
  uint32_t ranks = 1;  // in the attempt; each has its own StartJob
};

// Stops one rank of the attempt. Answered by the rank's AttemptEnded.
struct StopJob {
  AttemptRef attempt;
  DeviceId device;
  StopReason reason = StopReason::kCancelled;
};

// Makes a version of the job's last checkpoint and asks to load it. Answered by
// VersionCreated and VersionLoadRequested.
struct CreateVersion {
  JobId job;
};

// Loads the version. Answered by VersionLoaded or VersionLoadFailed with the
// same `load`.
struct LoadVersion {
  VersionId version;
  DeviceId device;
  uint64_t load = 0;
  uint64_t limit_bytes = 0;
};

// Loads and runs the version in a process where nothing else is. Answered by
// VersionRehearsed with the same `load`.
struct RehearseVersion {
  VersionId version;
  uint64_t load = 0;
};

// Lets requests in: the version is on the device.
struct ServeVersion {
  VersionId version;
  DeviceId device;
};

// Lets no new request in. Answered by VersionDrained.
struct DrainVersion {
  VersionId version;
  DeviceId device;
};

// Ends what is left of a version whose worker was lost: requests that wait for
// the next worker are refused, and sequences end. Not answered, since nothing
// waits for it. No-op for a version that was never served.
struct ForgetVersion {
  VersionId version;
};

// Gives the version's bytes back. Answered by VersionUnloaded.
struct UnloadVersion {
  VersionId version;
  DeviceId device;
};

// Asks for TimerFired at `time` or a little later. Does not replace earlier
// timers.
struct SetTimer {
  absl::Time time;
};

using Action = std::variant<StartJob, StopJob, CreateVersion, LoadVersion,
                            RehearseVersion, ServeVersion, DrainVersion,
                            ForgetVersion, UnloadVersion, SetTimer>;

}  // namespace gpupool::scheduler
