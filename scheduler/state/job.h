// A job that has not ended as the scheduler knows it.
//
// Thread-safety: a value; as State, whose invariants hold for it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/btree_set.h"
#include "absl/time/time.h"
#include "scheduler/state/demands.h"
#include "scheduler/state/device.h"
#include "scheduler/state/queue_key.h"
#include "scheduler/state/types.h"

namespace gpupool::scheduler {

// The part of a live attempt that one device runs.
struct Rank {
  DeviceId device;
  std::optional<Outcome> end;  // then it holds nothing any more
  bool saves() const { return end == Outcome::kSaving; }
  // The worker is there but has not listed it; its reports may explain that.
  bool missing = false;
};

struct Job {
  JobId id;
  std::string tenant;
  std::string queue_name;  // as it was submitted
  uint32_t queue = 0;      // its number in State::queues()
  int priority = 0;
  uint64_t bytes = 0;                  // on each device
  std::optional<uint64_t> next_bytes;  // once it holds none of `bytes`
  std::string wanted_device;           // as in device_choice.h
  // Of the live attempt; while it waits, as many as it needs to start.
  uint32_t device_count = 1;
  // Of an elastic job: with how many it can run, rising; else empty.
  std::vector<uint32_t> device_counts;
  Demands demands;
  uint32_t max_attempts = kDefaultMaxAttempts;
  absl::Duration first_backoff = kDefaultFirstBackoff;
  bool publish_on_success = false;

  JobState state = JobState::kQueued;
  uint32_t attempt = 0;     // number of the last start; 0 before the first
  uint32_t failures = 0;    // counts towards max_attempts
  std::vector<Rank> ranks;  // of the live attempt
  // Why the live attempt cannot go on; its other ranks were told to stop.
  std::optional<std::string> interruption;
  bool spared = false;  // that was a fault of a device: not a failure
  // That failed under it since its last checkpoint (step_faults.cc).
  std::vector<DeviceId> faults;
  uint64_t checkpoint_step = 0;
  // Why the live attempt was told to checkpoint and stop.
  std::optional<StopReason> stop_sent;
  // With kPreempted and kMoved: for whom.
  std::optional<JobId> gives_way_to;
  // With kServing: the version that needs its device.
  std::optional<VersionId> yields_to;
  // Live and elastic: since when there would be more devices for it.
  absl::Time may_grow_since = absl::InfiniteFuture();

  bool held = false;
  // Jobs that it waits for, which have not ended.
  absl::btree_set<JobId> after_ok;
  absl::btree_set<JobId> after_any;
  std::optional<absl::Duration> max_run;
  absl::Time start_before = absl::InfiniteFuture();
  absl::Time deadline = absl::InfiniteFuture();
  absl::Time limit_time = absl::InfiniteFuture();  // index of the state
  absl::Duration save_time;  // of its last checkpoint, until it was on disk

  // How long it ran in RUNNING attempts that are over, and since when it runs.
  absl::Duration attained;
  absl::Time run_since = absl::InfiniteFuture();
  absl::Time standing_change = absl::InfiniteFuture();  // index of the state
  // In all, when the training loop or the user has said so.
  std::optional<absl::Duration> expected_run;
  // Its place among jobs of its priority (order_policy.h).
  double standing = 0;
  // BACKING_OFF: when it is queued again. Live: until when missing ranks may
  // still be explained. Otherwise InfiniteFuture.
  absl::Time wake_time = absl::InfiniteFuture();
  // Later jobs that were started although this one waited; see queue_policy.h.
  uint32_t passes = 0;
  absl::btree_set<DeviceId> held_devices;
  // Where others were told to make room for it.
  std::vector<DeviceId> reserved_devices;
  // Of a task of an array, else 0 (array_limit.h).
  JobId array;
  uint32_t max_at_once = 0;
  bool over_limit = false;  // QUEUED, and stands aside for that limit alone

  absl::Duration Attained(absl::Time now) const;
  // Queued, and neither held nor waiting for other jobs or its array's limit.
  bool MayStart() const;
  bool MayStartButForLimit() const;
  bool elastic() const { return !device_counts.empty(); }
  // When one of its limits (max_run, start_before, deadline) takes effect if
  // nothing happens before. While it waits its deadline does so as soon as the
  // time left is less than it is known to need.
  absl::Time NextLimit() const;
  // Null when no rank of the live attempt was placed there.
  const Rank* FindRank(DeviceId device) const;
  // A rank that has not ended is there.
  bool RunsOn(DeviceId device) const;
  bool SavesFrom(DeviceId device) const;
  bool HoldsDevices() const;
  // It may not start again before the checkpoint that it left its device with
  // is on disk, or is lost.
  bool Saves() const {
    return std::any_of(ranks.begin(), ranks.end(),
                       [](const Rank& rank) { return rank.saves(); });
  }
};

QueueKey KeyOf(const Job& job);

// Returns whether the live attempt has been told to stop, so that what it holds
// comes back.
inline bool IsStopping(const Job& job) {
  return job.stop_sent.has_value() || job.interruption.has_value() ||
         job.state == JobState::kCancelling || job.Saves();
}

// Returns what a rank of the job holds of the device: its bytes, or all that
// may be used there when the job is exclusive.
inline uint64_t BytesOn(const Job& job, const Device& device) {
  return job.demands.exclusive ? device.limit_bytes : job.bytes;
}

}  // namespace gpupool::scheduler
