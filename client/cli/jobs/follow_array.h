// Follows an array's counts until its last task ends, through lost connections.
#pragma once

#include <cstdint>
#include <functional>
#include <stop_token>

#include "absl/status/statusor.h"
#include "client/client.h"

namespace gpupool::client {

// Calls `on_change` with the array whenever a count has changed, and returns
// the final array. Cancelled when `stop` was requested. Unavailable when the
// server was unreachable for two minutes.
absl::StatusOr<v1::JobArray> FollowArray(
    Client& client, const v1::JobArray& array, std::stop_token stop,
    const std::function<void(const v1::JobArray&)>& on_change);

}  // namespace gpupool::client
