// The request for a job: the wishes of its user and the bytes of its plan. It
// travels as one value from the job's row through JobSubmitted to Job, so a new
// field is one line here.
//
// Thread-safety: a value.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/btree_set.h"
#include "absl/time/time.h"
#include "scheduler/state/demands.h"
#include "scheduler/state/types.h"

namespace gpupool::scheduler {

struct JobRequest {
  std::string tenant;         // the tenant that submitted it (fair_share.h)
  std::string queue_name;     // empty or unknown: default
  std::string wanted_device;  // as in device_choice.h
  // Numbers of devices that an elastic job can run with, rising; else empty.
  std::vector<uint32_t> device_counts;
  Demands demands = {};
  // Limit of failures, >= 1. Stops and faults of devices do not count.
  uint32_t max_attempts = kDefaultMaxAttempts;
  absl::Duration first_backoff = kDefaultFirstBackoff;
  bool publish_on_success = false;
  std::optional<absl::Duration> max_run;  // limit of the total run time, > 0
  // Times by which the job must have been started and must have ended, or it
  // fails.
  absl::Time start_before = absl::InfiniteFuture();
  absl::Time deadline = absl::InfiniteFuture();
  // Jobs that have not ended. The job starts only after those in `after_ok`
  // have succeeded and those in `after_any` have ended.
  absl::btree_set<JobId> after_ok;
  absl::btree_set<JobId> after_any;
  bool held = false;
  bool untried = false;  // it starts only after its JobRehearsed
  // Array of a task, else 0 (array_limit.h). Ids of arrays and jobs come from
  // one sequence, so that `after_ok` may name either.
  JobId array;
  uint32_t max_at_once = 0;  // limit of the array; 0: none

  // Fields that decisions read of every running job. They come last, and are
  // followed by those of Job, so that they share few cache lines.
  JobId id;
  int priority = 0;    // higher goes first
  uint64_t bytes = 0;  // planned peak on each device
  // Devices that run it together, of one kind. For an elastic job: the least
  // number, or that of the live attempt.
  uint32_t device_count = 1;
  // Total run time, when the user or the training loop has told it.
  std::optional<absl::Duration> expected_run;
};

}  // namespace gpupool::scheduler
