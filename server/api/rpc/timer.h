// Private to server/api: work on gRPC's own threads, soon or later.
#pragma once

#include <functional>

#include "absl/time/time.h"

namespace gpupool::server {

// Runs `function` once on a gRPC thread after `delay`. Do not use it for long
// delays: a pending call cannot be taken back.
void RunAfter(absl::Duration delay, std::function<void()> function);

}  // namespace gpupool::server
