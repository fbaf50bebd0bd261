// Limits of client requests. The values are settings of the daemon
// (server/settings.h), so there are no defaults here.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gpupool::server {

// Maximum number of streams of each kind at a time: uploads of datasets,
// uploads of models, exports.
inline constexpr size_t kMostUploads = 16;

struct ApiLimits {
  uint64_t message_bytes = 0;     // one gRPC message
  uint64_t dataset_bytes = 0;     // all files of an uploaded dataset
  uint64_t model_file_bytes = 0;  // one file of an uploaded model
  // Open WatchJob streams; the same for WatchDevices.
  uint32_t watch_streams = 0;
};

}  // namespace gpupool::server
