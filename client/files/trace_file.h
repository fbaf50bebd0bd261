// A trace of jobs from a file: CSV as scheduler/simulator/trace.h has it, plain
// or compressed with gzip. From any thread.
#pragma once

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"

namespace gpupool::client {

inline constexpr size_t kMostTraceBytes = size_t{1} << 30;  // decompressed

// The text of `path`, or of standard input for "-". NotFound when it does not
// exist; InvalidArgument when it is a folder, when it holds more than
// `limit_bytes`, or when its gzip stream is broken or cut.
absl::StatusOr<std::string> ReadTraceFile(const std::string& path,
                                          size_t limit_bytes = kMostTraceBytes);

}  // namespace gpupool::client
