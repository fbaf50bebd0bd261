// Which training gives way to what is served: pure functions of the state.
//
//   * Where a version is READY and under load (load_policy.h), all jobs on its
//     device checkpoint and leave, and none starts there until the load has
//     gone. They go back to the queue, to their old place.
//   * A version that is to be loaded and finds no bytes gets those of training,
//     but only of jobs that it does not lock out: somewhere there must be
//     devices that are large enough for the job beside all that is served,
//     that version included. Otherwise it waits until jobs end.
//
// Both only of jobs that have had the policy's minimum run, and only when the
// policy says so (QueuePolicy::yields_to_serving).
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

// Devices that training leaves to a version under load: the first such one of
// each. Empty when training gives way to nothing.
absl::btree_map<DeviceId, VersionId> DevicesUnderLoad(const State& state);

struct Yields {
  std::vector<JobId> jobs;  // to tell now
  // When the next one has had its minimum run; InfiniteFuture: none will.
  absl::Time next = absl::InfiniteFuture();
};

// The jobs of a device that training must leave.
Yields JobsThatYield(const State& state, DeviceId device, absl::Time now);

struct VersionRoom {
  DeviceId device;
  std::vector<JobId> stops;  // to tell now; the others there were told already
};

// Where a version that fits nowhere now gets its bytes from training: on the
// device where the fewest jobs must stop. `taken`: kept free for others.
std::optional<VersionRoom> RoomForVersion(
    const State& state, const Version& version,
    const absl::btree_set<DeviceId>& taken, absl::Time now);

// When a job that gives way to no version yet because of its minimum run has
// had it; InfiniteFuture when there is none.
absl::Time NextMinRun(const State& state, absl::Time now);

// "'digits' version 1"
std::string LabelOf(const Version& version);

}  // namespace gpupool::scheduler
