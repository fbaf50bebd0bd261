// Why one job waits, in detail, and what would change that: a pure function of
// the state, for people who ask about one job (queue_policy.h has the sentence
// that everybody gets).
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

// Jobs ahead that are listed.
inline constexpr size_t kMostAhead = 100;

struct Explanation {
  struct DeviceView {
    DeviceId device;
    uint64_t missing_bytes = 0;  // until the job fits beside the others
    std::string obstacle;        // why it does not start here; empty: it may
  };
  struct RunningView {
    JobId job;
    bool gives_way = false;  // to the job, now
    std::string reason;      // when that may change, or why it does not
    std::optional<absl::Duration> left;  // until it ends by itself
  };

  std::string waits_for;     // as in WaitingReasons; empty: it does not wait
  uint64_t position = 0;     // in the queue, from 1; 0: it is not there
  std::vector<JobId> ahead;  // the first kMostAhead of them
  std::vector<DeviceView> devices;   // of its kind
  std::vector<RunningView> running;  // on those, while it is in the queue
  std::vector<std::string> changes;  // each would change what it waits for
};

// Of a job that has not ended. Cost is linear in what is ahead and in devices.
Explanation Explain(const State& state, const Job& job, absl::Time now);

}  // namespace gpupool::scheduler
