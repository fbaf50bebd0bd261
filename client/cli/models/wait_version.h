// Waiting for model versions: for the one that a job publishes, and for one
// that was asked for.
#pragma once

#include <stop_token>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/cli/command/context.h"
#include "client/client.h"

namespace gpupool::client {

// The newest version made from `job`, once it is READY or LOAD_FAILED.
// DeadlineExceeded after the client's wait_timeout; Cancelled by `stop`.
absl::StatusOr<v1::ModelVersion> WaitForJobVersion(Client& client,
                                                   const v1::Job& job,
                                                   std::stop_token stop);

// Follows the version, whose load was asked for, until it is READY or
// LOAD_FAILED, and returns it. On a terminal a line says why it waits; else the
// first reason is said. FailedPrecondition when somebody unloads it meanwhile;
// DeadlineExceeded after `timeout`; Cancelled by the context's `stop`.
absl::StatusOr<v1::ModelVersion> AwaitServed(Context& context, Client& client,
                                             v1::ModelVersion version,
                                             absl::Duration timeout);

}  // namespace gpupool::client
