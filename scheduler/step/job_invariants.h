// The part of invariants.h that covers jobs and arrays.
#pragma once

#include "absl/status/status.h"
#include "scheduler/state/state.h"

namespace gpupool::scheduler {

// Returns OK, or Internal that names the job or the array and what is wrong.
absl::Status CheckJob(const State& state, const Job& job);
absl::Status CheckArray(JobId id, const ArrayTasks& tasks);

}  // namespace gpupool::scheduler
