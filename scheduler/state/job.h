// A job that has not ended, as the scheduler knows it.
//
// Thread-safety: a value; as State, whose invariants cover it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/btree_set.h"
#include "absl/container/inlined_vector.h"
#include "absl/time/time.h"
#include "scheduler/state/device.h"
#include "scheduler/state/job_request.h"
#include "scheduler/state/queue_key.h"
#include "scheduler/state/types.h"

namespace gpupool::scheduler {

// The part of a live attempt that one device runs.
struct Rank {
  DeviceId device;
  std::optional<Outcome> end;  // a rank that has ended holds nothing
  bool saves() const { return end == Outcome::kSaving; }
  // The worker is connected but has not listed the rank; its spooled reports
  // may explain that.
  bool missing = false;
};

// The ranks of an attempt. Most jobs run on one device and keep its rank
// inside.
using Ranks = absl::InlinedVector<Rank, 1>;

// The fields of the request change with the job: a new plan has other bytes, an
// attempt another number of devices, a report another expected run time.
struct Job : JobRequest {
  // Fields that decisions read of every running job come first, next to those
  // of the request.
  uint32_t queue = 0;  // index in State::queues()
  JobState state = JobState::kQueued;
  // Why the live attempt was told to checkpoint and stop.
  std::optional<StopReason> stop_sent;
  Ranks ranks;  // ranks of the live attempt
  // Place among jobs of its priority (order_policy.h); smaller goes first.
  double standing = 0;
  // Start of the current run, and the run time of past RUNNING attempts.
  absl::Time run_since = absl::InfiniteFuture();
  absl::Duration attained;
  // Why the live attempt cannot go on. Its other ranks were told to stop.
  std::optional<std::string> interruption;

  std::optional<uint64_t> next_bytes;  // size from the next placement on

  uint32_t attempt = 0;   // number of the last start; 0 before the first
  uint32_t failures = 0;  // counts towards max_attempts
  bool spared = false;    // interrupted, but that was no failure of the job
  // Devices that failed under the job since its last checkpoint
  // (step_faults.cc).
  std::vector<DeviceId> faults;
  uint64_t checkpoint_step = 0;
  // With kPreempted and kMoved: the job that gets the room.
  std::optional<JobId> gives_way_to;
  // With kServing: the version that needs its device.
  std::optional<VersionId> yields_to;
  // Live and elastic: the time since when more devices are free for it.
  absl::Time may_grow_since = absl::InfiniteFuture();

  absl::Time limit_time = absl::InfiniteFuture();  // key in the state's index
  absl::Duration save_time;  // time of the last save, until on disk

  // Key in the state's index.
  absl::Time standing_change = absl::InfiniteFuture();
  // BACKING_OFF: when the job is queued again. Live: until when missing ranks
  // may still be explained. Otherwise InfiniteFuture.
  absl::Time wake_time = absl::InfiniteFuture();
  // Number of later jobs that were started while this one waited
  // (queue_policy.h).
  uint32_t passes = 0;
  absl::btree_set<DeviceId> held_devices;
  // Devices where others were told to make room for this job.
  std::vector<DeviceId> reserved_devices;
  bool over_limit = false;  // QUEUED, kept out of the queue by max_at_once only

  absl::Duration Attained(absl::Time now) const;
  // Returns true for a QUEUED job that is not held, has been tried, and waits
  // neither for other jobs nor for its array's limit.
  bool MayStart() const;
  bool MayStartButForLimit() const;
  bool elastic() const { return !device_counts.empty(); }
  // Returns when the first of its limits (max_run, start_before, deadline)
  // takes effect if nothing happens before. The deadline of a waiting job takes
  // effect as soon as the time left is less than the job is known to need.
  absl::Time NextLimit() const;
  // Returns null when no rank of the live attempt was placed there.
  const Rank* FindRank(DeviceId device) const;
  // Returns whether a rank that has not ended is there.
  bool RunsOn(DeviceId device) const;
  bool SavesFrom(DeviceId device) const;
  bool HoldsDevices() const;
  // Returns whether the last checkpoint is still on its way to the disk. Until
  // it is there or lost, the job may not start again.
  bool Saves() const {
    return std::any_of(ranks.begin(), ranks.end(),
                       [](const Rank& rank) { return rank.saves(); });
  }
};

QueueKey KeyOf(const Job& job);

// Returns whether the live attempt has been told to stop, so that its bytes
// will come back.
inline bool IsStopping(const Job& job) {
  return job.stop_sent.has_value() || job.interruption.has_value() ||
         job.state == JobState::kCancelling || job.Saves();
}

// Returns the bytes that a rank of the job holds on the device: the job's
// bytes, or all usable bytes when the job is exclusive.
inline uint64_t BytesOn(const Job& job, const Device& device) {
  return job.demands.exclusive ? device.limit_bytes : job.bytes;
}

}  // namespace gpupool::scheduler
