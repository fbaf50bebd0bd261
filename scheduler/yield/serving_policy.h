// Decides which training gives way to served models: pure functions of the
// state.
//
//   * Where a READY version is under load (load_policy.h), all jobs on its
//     device checkpoint and leave, and none starts there until the load is
//     gone. They go back to their old place in the queue.
//   * A version that finds no bytes takes those of training jobs that it does
//     not lock out: somewhere there must be devices that are large enough for
//     the job beside all that is served, that version included. Otherwise the
//     version waits until jobs end.
//
// Both apply only to jobs that have had the policy's minimum run, and only with
// QueuePolicy::yields_to_serving.
//
// Thread-safety: as State.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "scheduler/state/state.h"
#include "scheduler/state/types.h"

namespace gpupool::scheduler {

// Returns the devices that training leaves to versions under load, each with
// the first such version. Empty when training gives way to nothing.
absl::btree_map<DeviceId, VersionId> DevicesUnderLoad(const State& state);

struct Yields {
  std::vector<JobId> jobs;  // jobs to stop now
  // When the next job has had its minimum run; InfiniteFuture: none will.
  absl::Time next = absl::InfiniteFuture();
};

// Returns the jobs of the device that must leave it.
Yields JobsThatYield(const State& state, DeviceId device, absl::Time now);

struct VersionRoom {
  DeviceId device;
  std::vector<JobId> stops;  // jobs to stop now; others were told before
};

// Returns the device where the version, which fits nowhere now, gets its bytes
// from training: the one where the fewest jobs must stop. Devices in `taken`
// are kept free for others.
std::optional<VersionRoom> RoomForVersion(
    const State& state, const Version& version,
    const absl::btree_set<DeviceId>& taken, absl::Time now);

// Returns when the next job has had its minimum run that until then does not
// give way to a version; InfiniteFuture when there is none.
absl::Time NextMinRun(const State& state, absl::Time now);

// Returns "'digits' version 1".
std::string LabelOf(const Version& version);
// Returns how a text for jobs of the tenant names the version: "model 'digits'
// version 1", or "a model of another tenant", whose name is none of theirs.
std::string ModelTextFor(const Version& version, const std::string& tenant);

}  // namespace gpupool::scheduler
