// Reads a whole small file. From any thread.
#pragma once

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"

namespace gpupool::client {

// Returns the bytes of `path`, or of standard input for "-".
//   NOT_FOUND          it does not exist
//   INVALID_ARGUMENT   it is a folder or larger than `limit_bytes`
//   PERMISSION_DENIED
//   INTERNAL           any other failure to read
absl::StatusOr<std::string> ReadTextFile(const std::string& path,
                                         size_t limit_bytes);

}  // namespace gpupool::client
