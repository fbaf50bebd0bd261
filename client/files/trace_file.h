// Reads a trace of jobs from a file: CSV in the format of
// scheduler/simulator/trace.h, plain or compressed with gzip. From any thread.
#pragma once

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"

namespace gpupool::client {

inline constexpr size_t kMostTraceBytes = size_t{1} << 30;  // decompressed

// Returns the text of `path`, or of standard input for "-". NotFound if it does
// not exist. InvalidArgument if it is a folder, holds more than `limit_bytes`,
// or has a broken or truncated gzip stream.
absl::StatusOr<std::string> ReadTraceFile(const std::string& path,
                                          size_t limit_bytes = kMostTraceBytes);

}  // namespace gpupool::client
