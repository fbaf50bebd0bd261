// What the tasks of an array are: from the spec that was submitted to those of
// its tasks. Pure functions.
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

// Tasks of one array: they are admitted in one transaction, which others wait
// for.
inline constexpr size_t kMaxArrayTasks = 1000;
inline constexpr uint32_t kMaxArrayIndex = 999'999;

struct ArrayTask {
  uint32_t index = 0;
  v1::JobSpec spec;  // without `array`
};

// The numbers that `text` stands for, as ArraySpec.indices says.
// InvalidArgument names the part that is wrong.
absl::StatusOr<std::vector<uint32_t>> ParseIndices(absl::string_view text);

// All tasks, in the order of their indices. InvalidArgument names the field;
// whether a task's spec is sound is not looked at.
absl::StatusOr<std::vector<ArrayTask>> TasksOf(const v1::JobSpec& spec);

}  // namespace gpupool::server
