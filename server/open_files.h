// The limit of open files of this process, which its children inherit.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"

namespace gpupool::server {

struct OpenFileLimit {
  uint64_t before = 0;
  uint64_t now = 0;
};

// Raises the soft limit of open files to the hard limit, but not above
// 1,048,576. Changes nothing when the limit is as high already. Returns the
// system's error when it refuses.
absl::StatusOr<OpenFileLimit> RaiseOpenFileLimit();

}  // namespace gpupool::server
