// Turns errors that functors report into statuses. Pure.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "engine/backends/portable/launch/launch.h"
#include "engine/graph/ops.h"

namespace gpupool::engine::portable {

// Returns OK, or INVALID_ARGUMENT with the layer, the number and its limits.
absl::Status StatusOf(const DeviceError& error, Op op,
                      absl::string_view source);

}  // namespace gpupool::engine::portable
