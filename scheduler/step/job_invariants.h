// The part of invariants.h that is about jobs and arrays of them.
#pragma once

#include "absl/status/status.h"
#include "scheduler/state/state.h"

namespace gpupool::scheduler {

// Internal names the job or the array and what is wrong with it.
absl::Status CheckJob(const State& state, const Job& job);
absl::Status CheckArray(JobId id, const ArrayTasks& tasks);

}  // namespace gpupool::scheduler
