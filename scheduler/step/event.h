// Events: the input of Step(). Every name is past tense, since an event is a
// fact. It cannot be refused, only found to be stale.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "scheduler/state/device.h"
#include "scheduler/state/job_request.h"
#include "scheduler/state/reservations.h"
#include "scheduler/state/types.h"

namespace gpupool::scheduler {

// ------------------------------------------------------------- from clients

// A job was submitted. The event is the request itself.
using JobSubmitted = JobRequest;

// All tasks of an array were submitted at once.
struct ArraySubmitted {
  std::vector<JobSubmitted> tasks;
};

// The same request for all tasks of an array that have not ended.
enum class ArrayRequest { kCancel, kHold, kRelease, kRequeue };
struct ArrayRequested {
  JobId array;
  ArrayRequest what = ArrayRequest::kCancel;
};

struct JobCancelRequested {
  JobId job;
};

// The job does not start until it is released. A live attempt checkpoints and
// stops.
struct JobHoldRequested {
  JobId job;
};
struct JobReleaseRequested {
  JobId job;
};
// The job goes back to the queue as if it had never failed. A live attempt
// checkpoints and stops.
struct JobRequeueRequested {
  JobId job;
};

// A version is on disk; nobody has asked to serve it yet.
struct VersionCreated {
  VersionId version;
  std::string model;
  uint64_t number = 0;  // within the model
  uint64_t bytes = 0;   // planned peak for inference
  // Whether it unloads older versions when it becomes ready for the first time.
  bool replaces_older = true;
  std::string tenant = {};  // that it belongs to; empty: none
};

// Somebody wants the version loaded. If it has a place it stays there, wherever
// it is wanted now.
struct VersionLoadRequested {
  VersionId version;
  std::string wanted_device = {};  // as in device_choice.h
  bool rehearse = false;           // it gets no place before it was rehearsed
};
struct VersionUnloadRequested {
  VersionId version;
};
// A version that is not served was deleted; the caller has checked that.
struct VersionDeleted {
  VersionId version;
};

// Only this share of the device may be used from now on, (0, 1]. Stale when
// more is placed there.
struct MemoryFractionSet {
  DeviceId device;
  double fraction = 1;
};

// The device is drained from now on, or with no value is not drained any more,
// which also ends its cool-down. Stale when nothing changes.
struct DeviceDrainSet {
  DeviceId device;
  std::optional<DeviceDrain> drain;
};

// Devices were reserved that are free in the window (reservation_policy.h).
struct ReservationMade {
  TenantReservation reservation;
};
struct ReservationCancelled {
  ReservationId reservation;
};

// Nothing starts any more. With `stop`, running attempts checkpoint and stop.
struct DrainRequested {
  bool stop = false;
};

// ------------------------------------------------------------- from workers

// A worker is connected and reports what it holds. Its spooled reports come
// after this event.
struct WorkerReady {
  DeviceId device;
  uint64_t limit_bytes = 0;  // 0: the configured limit
  std::vector<AttemptRef> running;
  std::vector<VersionId> loaded;
  // Attempts that hold nothing on the device any more. Their ends follow, at
  // once or when their checkpoints are on disk.
  std::vector<AttemptRef> left;
};

// For whom a worker worked when it ended. At most one is set. Nothing is set
// when that is unknown, and when it did no work.
struct WorkAtEnd {
  std::optional<JobId> job;
  std::optional<VersionId> version;
  bool known() const { return job || version; }
};

// The worker ended, or hung and was killed. All that it held is gone.
struct WorkerLost {
  DeviceId device;
  std::string reason;
  DeviceFault fault = DeviceFault::kNone;
  WorkAtEnd work = {};
};

// An attempt has begun. Rank 0 reports for all ranks of an attempt; only its
// end is reported by every rank itself.
struct AttemptStarted {
  DeviceId device;
  AttemptRef attempt;
  // Time that the worker needed to begin, when it resumed from a checkpoint.
  std::optional<absl::Duration> restored_in;
};
struct ProgressMade {
  DeviceId device;
  AttemptRef attempt;
  uint64_t step = 0;
  std::optional<absl::Duration> remaining;  // steps left times the time of one
};
struct CheckpointSaved {
  DeviceId device;
  AttemptRef attempt;
  uint64_t step = 0;
  absl::Duration took;   // time for which the training paused
  absl::Duration wrote;  // time to the disk after that
};
struct AttemptEnded {
  DeviceId device;
  AttemptRef attempt;
  Outcome outcome = Outcome::kInterrupted;
  std::string message;
  // With kInterrupted: the fault of the device during the attempt's own work.
  DeviceFault fault = DeviceFault::kNone;
  // With kInterrupted: neither the job nor the device is to blame.
  bool spared = false;
};

// The version is on the device. `load` is the number of its LoadVersion action
// and fences off late answers.
struct VersionLoaded {
  VersionId version;
  DeviceId device;
  uint64_t load = 0;
};
struct VersionLoadFailed {
  VersionId version;
  DeviceId device;
  uint64_t load = 0;
  absl::Status status;
};
// The version was loaded and run alone; UNAVAILABLE when it could not be tried.
struct VersionRehearsed {
  VersionId version;
  uint64_t load = 0;
  absl::Status status;
};
struct VersionUnloaded {
  VersionId version;
  DeviceId device;
};
// One step of the job, or of one like it, was made alone. UNAVAILABLE when it
// could not be tried; the job then starts all the same.
struct JobRehearsed {
  JobId job;
  absl::Status status;
};

// ------------------------------------------------------- from the own server

// No request is in flight on the version any more.
struct VersionDrained {
  VersionId version;
};
// Requests to the version began or ceased to wait for too long (load_policy.h).
struct ServingLoadChanged {
  VersionId version;
  bool under_load = false;
};
// A plan was made again, by a server with another number of threads or another
// build. It applies once the job or version holds no bytes on a device.
struct JobPlanned {
  JobId job;
  uint64_t bytes = 0;
};
struct VersionPlanned {
  VersionId version;
  uint64_t bytes = 0;
};
// Starts are held: no job starts and no version is loaded until their plans
// have been made again.
struct StartsHeld {
  bool held = false;
};

// A time of SetTimer has come. Early or extra events do no harm.
struct TimerFired {};

using Event = std::variant<
    JobSubmitted, ArraySubmitted, ArrayRequested, JobCancelRequested,
    JobHoldRequested, JobReleaseRequested, JobRequeueRequested, VersionCreated,
    VersionLoadRequested, VersionUnloadRequested, VersionDeleted,
    MemoryFractionSet, DeviceDrainSet, ReservationMade, ReservationCancelled,
    DrainRequested, WorkerReady, WorkerLost, AttemptStarted, ProgressMade,
    CheckpointSaved, AttemptEnded, VersionLoaded, VersionLoadFailed,
    VersionRehearsed, VersionUnloaded, JobRehearsed, VersionDrained,
    ServingLoadChanged, JobPlanned, VersionPlanned, StartsHeld, TimerFired>;

}  // namespace gpupool::scheduler
