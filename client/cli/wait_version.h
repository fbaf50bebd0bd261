// Waiting for the model version that a job publishes.
#pragma once

#include <stop_token>

#include "absl/status/statusor.h"
#include "client/client.h"

namespace gpupool::client {

// The newest version made from `job`, once it is READY or LOAD_FAILED.
// DeadlineExceeded after the client's wait_timeout; Cancelled by `stop`.
absl::StatusOr<v1::ModelVersion> WaitForJobVersion(Client& client,
                                                   const v1::Job& job,
                                                   std::stop_token stop);

}  // namespace gpupool::client
