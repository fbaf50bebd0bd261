// Tells how many of a job's events the store always has.
#pragma once

#include <cstdint>

namespace gpupool::server {

// Number of a job's newest events that are never thinned
// (WriteBatch::thin_events).
inline constexpr uint64_t kEventsKept = 4096;

}  // namespace gpupool::server
