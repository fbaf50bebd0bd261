// The jobs on all devices, found in one pass. Most jobs are not in the
// processor's cache when a decision begins. The pass asks for them ahead of
// their use, so that the waits for memory overlap.
//
// Thread-safety: as State. Refers to its jobs; valid until one is placed or
// leaves.
#pragma once

#include <cstddef>
#include <vector>

#include "absl/types/span.h"
#include "scheduler/state/state.h"
#include "scheduler/state/types.h"

namespace gpupool::scheduler {

class PlacedJobs {
 public:
  explicit PlacedJobs(const State& state);

  // Returns the number of jobs, each counted on every device that it is on.
  size_t size() const { return jobs_.size(); }
  // Returns the jobs on the device, by rising id.
  absl::Span<const Job* const> On(DeviceId device) const {
    const size_t first = firsts_[device.value()];
    return absl::MakeConstSpan(jobs_).subspan(
        first, firsts_[device.value() + 1] - first);
  }

 private:
  std::vector<const Job*> jobs_;  // device by device
  // By device: the index of its first job. A last one is the number of jobs.
  std::vector<size_t> firsts_;
};

}  // namespace gpupool::scheduler
