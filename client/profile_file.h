// A profile of a job's steps as a file for chrome://tracing and Perfetto.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "client/client.h"

namespace gpupool::client {

struct ProfileFile {
  uint64_t bytes = 0;
  uint32_t steps = 0;  // fewer than requested if the job has ended
};

// Has the server profile the job, and writes the file. The file appears
// complete or not at all. ResourceExhausted if the disk is full, else the
// server's errors.
absl::StatusOr<ProfileFile> ProfileJob(Client& client,
                                       const v1::ProfileJobRequest& request,
                                       const std::string& path);

}  // namespace gpupool::client
