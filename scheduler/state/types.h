// The scheduler's vocabulary: ids that cannot be mixed up, and the states of
// jobs and versions. Values only; nothing here depends on the rest of gpupool.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace gpupool::scheduler {

// A number that names one kind of thing. Ids of different kinds neither
// compare nor convert.
template <typename Tag>
class Id {
 public:
  constexpr Id() = default;
  constexpr explicit Id(uint64_t value) : value_(value) {}

  constexpr uint64_t value() const { return value_; }

  friend constexpr auto operator<=>(const Id&, const Id&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const Id& id) {
    return H::combine(std::move(h), id.value_);
  }

 private:
  uint64_t value_ = 0;
};

using JobId = Id<struct JobTag>;          // v1.Job.id
using VersionId = Id<struct VersionTag>;  // v1.ModelVersion.id
using DeviceId = Id<struct DeviceTag>;    // position in the configured list
using ReservationId = Id<struct ReservationTag>;  // v1.Reservation.id

// One run of a job, on one device or on several together. `number` rises with
// every start of the job and fences messages of earlier runs.
struct AttemptRef {
  JobId job;
  uint32_t number = 0;  // >= 1
  friend constexpr auto operator<=>(const AttemptRef&,
                                    const AttemptRef&) = default;
};

// Values equal those of v1.JobState.
enum class JobState {
  kQueued = 1,
  kStarting = 2,
  kRunning = 3,
  kBackingOff = 4,
  kCancelling = 5,
  kSucceeded = 6,
  kFailed = 7,
  kCancelled = 8,
};

// Values equal those of v1.VersionState.
enum class VersionState {
  kUnloaded = 1,
  kLoading = 2,
  kReady = 3,
  kUnloading = 4,
  kLoadFailed = 5,
};

// How an attempt ended. Values equal those of worker.v1.JobEnded.Outcome.
enum class Outcome {
  kSucceeded = 1,
  kFailed = 2,       // the job's own fault: not retried
  kStopped = 3,      // because it was told to
  kInterrupted = 4,  // the worker's or the device's fault: retried
  // It has stopped and holds nothing on the device any more, but its checkpoint
  // is still on its way to the disk. It ends once more, with another of these.
  kSaving = 5,
};

// What ended a worker, when it was its device.
enum class DeviceFault {
  kNone,
  kLostContext,  // or a hang: another worker may go on; a job can cause it
  kSuspect,      // the device itself is broken
};

// Why a live attempt is told to stop.
enum class StopReason {
  kCancelled,  // at once; no checkpoint is needed
  // Checkpoint first; the ranks of an attempt agree on the step.
  kDrain,      // the server stops
  kPreempted,  // it makes room for another job
  kMoved,      // it makes room and goes on elsewhere
  kServing,    // a served model needs its device
  kDrained,    // its device is drained
  kReserved,   // its device is for another tenant's jobs from now on
  kResized,    // it goes on with another number of devices
  kHeld,       // somebody holds it
  kRequeued,   // somebody wants it to start again
  kOverTime,   // it has run for too long, or its deadline has come: it fails
};

// Why a job was told to make room; preemption_reasons.h has what is said of it.
enum class PreemptionReason {
  kPriority,     // the other one's is higher
  kQueue,        // the other one's is of higher rank
  kOrder,        // the other one goes first
  kGuarantee,    // of the other one's tenant
  kMove,         // it goes on elsewhere
  kServing,      // for a served model
  kDrain,        // of its device
  kResize,       // it goes on with fewer devices
  kReservation,  // of its device, for another tenant
};

// True when nothing can change the state any more.
constexpr bool IsEnded(JobState state) { return state >= JobState::kSucceeded; }

// True when an attempt of the job holds bytes on a device.
constexpr bool IsLive(JobState state) {
  return state == JobState::kStarting || state == JobState::kRunning ||
         state == JobState::kCancelling;
}

// True when a version in this state holds bytes on the device it names. A
// LOADING version names a device only once it has a place.
constexpr bool MayHoldBytes(VersionState state) {
  return state == VersionState::kLoading || state == VersionState::kReady ||
         state == VersionState::kUnloading;
}

// "QUEUED", "RUNNING", ... as in the API.
absl::string_view ToString(JobState state);
absl::string_view ToString(VersionState state);

// As a device's allocator counts a share of its memory.
constexpr uint64_t ShareOf(uint64_t bytes, double fraction) {
  return fraction >= 1
             ? bytes
             : static_cast<uint64_t>(static_cast<double>(bytes) * fraction);
}

// "512 B", "1.2 GiB": for people. Powers of 1024, one decimal from KiB on.
std::string FormatBytes(uint64_t bytes);

// Returns a time for people: "1m5s", below 10 seconds with one decimal.
std::string FormatSpan(absl::Duration span);

}  // namespace gpupool::scheduler
