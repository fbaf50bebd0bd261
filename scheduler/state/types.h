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

// Default number of tries of a job, and default wait after its first failure.
inline constexpr uint32_t kDefaultMaxAttempts = 3;
inline constexpr absl::Duration kDefaultFirstBackoff = absl::Seconds(1);

// One run of a job, on one device or on several together. `number` rises with
// every start of the job and fences off messages of earlier runs.
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

// Outcome of an attempt. Values equal those of worker.v1.JobEnded.Outcome.
enum class Outcome {
  kSucceeded = 1,
  kFailed = 2,       // by the job's own fault: not retried
  kStopped = 3,      // because it was told to stop
  kInterrupted = 4,  // by fault of the worker or device: retried
  // The attempt has stopped and holds nothing on the device any more, but its
  // checkpoint is still on its way to the disk. It ends once more, with another
  // outcome.
  kSaving = 5,
};

// Fault by which a device ended its worker.
enum class DeviceFault {
  kNone,
  kLostContext,  // or a hang; a new worker may go on; a job can cause it
  kSuspect,      // the device itself is broken
};

// Why a live attempt is told to stop.
enum class StopReason {
  kCancelled,  // at once; no checkpoint is needed
  // The job checkpoints first. The ranks of an attempt agree on the step.
  kDrain,      // the server stops
  kPreempted,  // it makes room for another job
  kMoved,      // it makes room and goes on elsewhere
  kServing,    // a served model needs its device
  kDrained,    // its device is drained
  kReserved,   // its device is for another tenant's jobs from now on
  kResized,    // it goes on with another number of devices
  kHeld,       // somebody holds it
  kRequeued,   // somebody wants it to start again
  kOverTime,   // ran too long or met its deadline: it fails
};

// Why a job was told to make room (texts: preemption_reasons.h).
enum class PreemptionReason {
  kPriority,     // the other job has the higher priority
  kQueue,        // the other job's queue has the higher rank
  kOrder,        // the other job goes first by its standing
  kGuarantee,    // the other job's tenant has a guarantee
  kMove,         // it goes on elsewhere
  kServing,      // a served model needs the device
  kDrain,        // its device is drained
  kResize,       // it goes on with fewer devices
  kReservation,  // its device is reserved for another tenant
};

// Returns true when nothing can change the state any more.
constexpr bool IsEnded(JobState state) { return state >= JobState::kSucceeded; }

// Returns true when an attempt of the job holds bytes on a device.
constexpr bool IsLive(JobState state) {
  return state == JobState::kStarting || state == JobState::kRunning ||
         state == JobState::kCancelling;
}

// Returns true when a version in this state holds bytes on the device that it
// names. A LOADING version names a device only once it has a place.
constexpr bool MayHoldBytes(VersionState state) {
  return state == VersionState::kLoading || state == VersionState::kReady ||
         state == VersionState::kUnloading;
}

// Returns "QUEUED", "RUNNING", ... as in the API.
absl::string_view ToString(JobState state);
absl::string_view ToString(VersionState state);

// Returns the share of the bytes, rounded as a device's allocator rounds it.
constexpr uint64_t ShareOf(uint64_t bytes, double fraction) {
  return fraction >= 1
             ? bytes
             : static_cast<uint64_t>(static_cast<double>(bytes) * fraction);
}

// Returns "512 B" or "1.2 GiB". Powers of 1024, with one decimal from KiB on.
std::string FormatBytes(uint64_t bytes);

// Returns two amounts that are compared in one sentence. They have as many
// decimals, at most three, as different amounts need to look different. Amounts
// that are closer come as whole bytes: "2147483648 B" and "2147483647 B".
std::pair<std::string, std::string> FormatBytePair(uint64_t first,
                                                   uint64_t second);

// Returns a time in words: "1m5s"; below 10 seconds with one decimal.
std::string FormatSpan(absl::Duration span);

}  // namespace gpupool::scheduler
