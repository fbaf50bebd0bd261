// Reading a whole small file. From any thread.
#pragma once

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"

namespace gpupool::client {

// The bytes of `path`, or of standard input for "-". NotFound when it does not
// exist, InvalidArgument when it is a folder or larger than `limit_bytes`,
// PermissionDenied, Internal for other failures to read.
absl::StatusOr<std::string> ReadTextFile(const std::string& path,
                                         size_t limit_bytes);

}  // namespace gpupool::client
