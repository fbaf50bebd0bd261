// Callbacks by which the request handlers of server/control answer.
#pragma once

#include <functional>

#include "absl/status/statusor.h"

namespace gpupool::server {

// Takes the answer to a request, exactly once. It is called before the request
// returns when that is refused, otherwise on the control thread or the pool's
// thread after the commit. It must be short and must not block.
template <typename T>
using Callback = std::function<void(absl::StatusOr<T>)>;

}  // namespace gpupool::server
