// Callbacks with which the request handlers of server/control answer.
#pragma once

#include <functional>

#include "absl/status/statusor.h"

namespace gpupool::server {

// Takes the answer to a request, exactly once. A refusal may come before the
// request returns. Other answers come after the commit, on the control thread
// or the pool's thread. The callback must be short and must not block.
template <typename T>
using Callback = std::function<void(absl::StatusOr<T>)>;

}  // namespace gpupool::server
