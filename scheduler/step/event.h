// What happened: the input of Step(). Every name is past tense; an event is a
// fact and cannot be refused, only found to be stale.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "scheduler/state/demands.h"
#include "scheduler/state/device.h"
#include "scheduler/state/reservations.h"
#include "scheduler/state/types.h"

namespace gpupool::scheduler {

// ------------------------------------------------------------- from clients

struct JobSubmitted {
  JobId job;
  std::string tenant;         // who submitted it (fair_share.h)
  std::string queue;          // empty: default; also where none is called so
  int priority = 0;           // higher goes first
  uint64_t bytes = 0;         // planned peak on each device
  std::string wanted_device;  // as in device_choice.h
  uint32_t device_count = 1;  // that run it together, all of one kind
  // Of an elastic job: with how many devices it can run; `device_count` is
  // the least of them then. Else empty.
  std::vector<uint32_t> device_counts;
  Demands demands = {};
  // Failures, neither stops nor faults of devices; >= 1.
  uint32_t max_attempts = 3;
  absl::Duration first_backoff = absl::Seconds(1);
  bool publish_on_success = false;
  std::optional<absl::Duration> expected_run;  // in all, when it is known
  std::optional<absl::Duration> max_run;       // in all attempts; > 0
  // It fails when it has not been started, or has not ended, by then.
  absl::Time start_before = absl::InfiniteFuture();
  absl::Time deadline = absl::InfiniteFuture();
  // Jobs that have not ended: it starts only after those of the first have
  // succeeded and those of the second have ended.
  std::vector<JobId> after_ok;
  std::vector<JobId> after_any;
  bool held = false;
  // Of a task of an array (array_limit.h), else 0. Ids of arrays and jobs are
  // of one sequence, so that `after_ok` may name either.
  JobId array;
  uint32_t max_at_once = 0;  // of its array; 0: no limit
};

// All tasks of an array, at once.
struct ArraySubmitted {
  std::vector<JobSubmitted> tasks;
};

// The same of all its tasks that have not ended.
enum class ArrayRequest { kCancel, kHold, kRelease, kRequeue };
struct ArrayRequested {
  JobId array;
  ArrayRequest what = ArrayRequest::kCancel;
};

struct JobCancelRequested {
  JobId job;
};

// It does not start until it is released; a live attempt checkpoints and stops.
struct JobHoldRequested {
  JobId job;
};
struct JobReleaseRequested {
  JobId job;
};
// Back to the queue, as if it had never failed; a live attempt checkpoints and
// stops.
struct JobRequeueRequested {
  JobId job;
};

// A version is on disk; nobody has asked to serve it yet.
struct VersionCreated {
  VersionId version;
  std::string model;
  uint64_t number = 0;  // within the model
  uint64_t bytes = 0;   // planned peak for inference
};

// One that has a place keeps it, wherever it is wanted now.
struct VersionLoadRequested {
  VersionId version;
  std::string wanted_device = {};  // as in device_choice.h
};
struct VersionUnloadRequested {
  VersionId version;
};
// Only of versions that are not served; the caller has checked.
struct VersionDeleted {
  VersionId version;
};

// Only this share of the device may be used from now on, (0, 1]. Stale when
// more than that is placed there.
struct MemoryFractionSet {
  DeviceId device;
  double fraction = 1;
};

// The device is drained from now on, or (nothing) no longer; then a cool-down
// ends, too. Stale when that is so already.
struct DeviceDrainSet {
  DeviceId device;
  std::optional<DeviceDrain> drain;
};

// The devices are free in the window (reservation_policy.h).
struct ReservationMade {
  TenantReservation reservation;
};
struct ReservationCancelled {
  ReservationId reservation;
};

// No further starts. With `stop`, running attempts checkpoint and stop.
struct DrainRequested {
  bool stop = false;
};

// ------------------------------------------------------------- from workers

// A worker is connected and says what it holds. Reports that it spooled come
// after this event.
struct WorkerReady {
  DeviceId device;
  uint64_t limit_bytes = 0;  // 0: as configured
  std::vector<AttemptRef> running;
  std::vector<VersionId> loaded;
  // Hold nothing on the device any more; how they ended follows, at once or
  // when their checkpoints are on disk.
  std::vector<AttemptRef> left;
};

// The worker ended, or hangs and was killed. What it held is gone.
struct WorkerLost {
  DeviceId device;
  std::string reason;
  DeviceFault fault = DeviceFault::kNone;
};

// Of an attempt on several devices rank 0 reports for all of them; only its end
// every rank reports itself.
struct AttemptStarted {
  DeviceId device;
  AttemptRef attempt;
  // How long the worker took to begin, when it resumed from a checkpoint.
  std::optional<absl::Duration> restored_in;
};
struct ProgressMade {
  DeviceId device;
  AttemptRef attempt;
  uint64_t step = 0;
  std::optional<absl::Duration> remaining;  // steps left times their time
};
struct CheckpointSaved {
  DeviceId device;
  AttemptRef attempt;
  uint64_t step = 0;
  absl::Duration took;   // that the training stood still for it
  absl::Duration wrote;  // on its way to the disk after that
};
struct AttemptEnded {
  DeviceId device;
  AttemptRef attempt;
  Outcome outcome = Outcome::kInterrupted;
  std::string message;
  // kInterrupted: with the attempt's own work the device failed.
  DeviceFault fault = DeviceFault::kNone;
};

// `load` is the number that the LoadVersion action carried; it fences late
// answers.
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
struct VersionUnloaded {
  VersionId version;
  DeviceId device;
};

// ------------------------------------------------------- from the own server

// No request is in flight on the version any more.
struct VersionDrained {
  VersionId version;
};
// Whether requests to the version wait for too long (load_policy.h); told when
// it changes.
struct ServingLoadChanged {
  VersionId version;
  bool under_load = false;
};
// A plan was made again, by a server with other threads or of another build.
// It counts from when the thing holds no bytes on a device.
struct JobPlanned {
  JobId job;
  uint64_t bytes = 0;
};
struct VersionPlanned {
  VersionId version;
  uint64_t bytes = 0;
};
// While starts are held no job starts and no version is loaded: their plans
// are made again first.
struct StartsHeld {
  bool held = false;
};

// A time asked for by SetTimer has come. Early or extra ones do no harm.
struct TimerFired {};

using Event = std::variant<
    JobSubmitted, ArraySubmitted, ArrayRequested, JobCancelRequested,
    JobHoldRequested, JobReleaseRequested, JobRequeueRequested, VersionCreated,
    VersionLoadRequested, VersionUnloadRequested, VersionDeleted,
    MemoryFractionSet, DeviceDrainSet, ReservationMade, ReservationCancelled,
    DrainRequested, WorkerReady, WorkerLost, AttemptStarted, ProgressMade,
    CheckpointSaved, AttemptEnded, VersionLoaded, VersionLoadFailed,
    VersionUnloaded, VersionDrained, ServingLoadChanged, JobPlanned,
    VersionPlanned, StartsHeld, TimerFired>;

}  // namespace gpupool::scheduler
