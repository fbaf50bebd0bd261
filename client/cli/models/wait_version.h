// Waits for model versions: for the version that a job publishes, or for a
// version whose load was requested.
#pragma once

#include <stop_token>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/cli/command/context.h"
#include "client/client.h"

namespace gpupool::client {

// Waits until the newest version that was made from `job` answers requests or
// is LOAD_FAILED, and returns it. FailedPrecondition if it is not to be loaded,
// DeadlineExceeded after the client's wait_timeout, Cancelled by `stop`.
absl::StatusOr<v1::ModelVersion> WaitForJobVersion(Client& client,
                                                   const v1::Job& job,
                                                   std::stop_token stop);

// Follows a version whose load was requested until it answers requests or is
// LOAD_FAILED, and returns it. On a terminal a line shows why it waits.
// Elsewhere only the first reason is printed.
//   FAILED_PRECONDITION  somebody unloaded the version meanwhile
//   DEADLINE_EXCEEDED    `timeout` has passed
//   CANCELLED            the context's `stop` was requested
absl::StatusOr<v1::ModelVersion> AwaitServed(Context& context, Client& client,
                                             v1::ModelVersion version,
                                             absl::Duration timeout);

}  // namespace gpupool::client
