// Derives the specs of an array's tasks from the spec that was submitted. Pure
// functions.
//
// Thread-safety: any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "gpupool/v1/job.pb.h"

namespace gpupool::server {

// Maximum number of tasks of one array. They are admitted in one transaction,
// for which others wait.
inline constexpr size_t kMaxArrayTasks = 1000;
inline constexpr uint32_t kMaxArrayIndex = 999'999;

struct ArrayTask {
  uint32_t index = 0;
  v1::JobSpec spec;  // without `array`
};

// Returns the numbers of `text`, whose form ArraySpec.indices describes.
// InvalidArgument names the part that is wrong.
absl::StatusOr<std::vector<uint32_t>> ParseIndices(absl::string_view text);

// Returns all tasks in the order of their indices. InvalidArgument names the
// field. Does not check the specs of the tasks.
absl::StatusOr<std::vector<ArrayTask>> TasksOf(const v1::JobSpec& spec);

}  // namespace gpupool::server
