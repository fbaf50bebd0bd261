// Measures launches by CUPTI's activity records, which tell by the device's
// clock when kernels and copies ran.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "engine/runtime/launch_timer.h"

namespace gpupool::engine::cuda {

// Makes the timer. `folders` is as for SharedLibrary::Open. A process has at
// most one such timer at a time.
//   NOT_FOUND            there is no CUPTI
//   FAILED_PRECONDITION  it lacks a function, this user may not use it, or
//                        another timer or profiler uses it
absl::StatusOr<std::unique_ptr<LaunchTimer>> MakeCuptiTimer(
    const std::string& folders);

}  // namespace gpupool::engine::cuda
