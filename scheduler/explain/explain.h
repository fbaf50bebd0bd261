// Explains in detail why one job waits, and what would change that. A pure
// function of the state, for people who ask about one job (waiting_reason.h has
// the one sentence that everybody gets).
//
// Thread-safety: as State.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "scheduler/state/state.h"

namespace gpupool::scheduler {

// Maximum number of jobs ahead that are listed.
inline constexpr size_t kMostAhead = 100;

struct Explanation {
  struct DeviceView {
    DeviceId device;
    uint64_t missing_bytes = 0;  // missing until the job fits beside the others
    std::string obstacle;  // why the job does not start here; empty: it may
  };
  struct RunningView {
    JobId job;
    bool gives_way = false;  // gives way to the job now
    std::string reason;      // when gives_way may change, or why it does not
    std::optional<absl::Duration> left;  // time until it ends by itself
  };

  std::string waits_for;     // as in WaitingReasons; empty: does not wait
  uint64_t position = 0;     // in the queue, from 1; 0: not in the queue
  std::vector<JobId> ahead;  // the first kMostAhead jobs ahead
  std::vector<DeviceView> devices;   // devices of the wanted kind
  std::vector<RunningView> running;  // jobs on them, while this one is queued
  std::vector<std::string> changes;  // changes that would each end the wait
};

// Returns the explanation of a job that has not ended. Cost is linear in the
// jobs ahead and in devices.
Explanation Explain(const State& state, const Job& job, absl::Time now);

}  // namespace gpupool::scheduler
