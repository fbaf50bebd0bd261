// The part of invariants.h that covers jobs and arrays, and the form of its
// errors.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "scheduler/state/state.h"

namespace gpupool::scheduler {

// Returns Internal with the arguments' text: the rule that is broken.
template <typename... Args>
absl::Status Broken(const Args&... args) {
  return absl::InternalError(absl::StrCat(args...));
}

// Returns OK, or Internal that names the job or the array and what is wrong.
absl::Status CheckJob(const State& state, const Job& job);
absl::Status CheckArray(JobId id, const ArrayTasks& tasks);

}  // namespace gpupool::scheduler
