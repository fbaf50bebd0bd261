// A profile of a job's steps, or of a served model, as a file for
// chrome://tracing and Perfetto.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "client/client.h"

namespace gpupool::client {

struct ProfileFile {
  uint64_t bytes = 0;
  // Steps or requests; fewer than wanted if the job has ended.
  uint32_t steps = 0;
  uint64_t version = 0;  // of a model
};

// Has the server profile the job, and writes the file. The file appears
// complete or not at all. ResourceExhausted if the disk is full, else the
// server's errors.
absl::StatusOr<ProfileFile> ProfileJob(Client& client,
                                       const v1::ProfileJobRequest& request,
                                       const std::string& path);

// Has the server profile the served model, and writes the file in the same way.
absl::StatusOr<ProfileFile> ProfileModel(Client& client,
                                         const v1::ProfileModelRequest& request,
                                         const std::string& path);

}  // namespace gpupool::client
