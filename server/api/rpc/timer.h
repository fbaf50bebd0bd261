// Private to server/api: runs work on gRPC's own threads.
#pragma once

#include <functional>

#include "absl/time/time.h"

namespace gpupool::server {

// Runs `function` once on a gRPC thread after `delay`. Not for long delays,
// since a pending call cannot be cancelled.
void RunAfter(absl::Duration delay, std::function<void()> function);

}  // namespace gpupool::server
