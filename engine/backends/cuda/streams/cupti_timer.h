// Times of launches by CUPTI's activity records: when kernels and copies ran
// on the device, by the device's clock.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "engine/runtime/launch_timer.h"

namespace gpupool::engine::cuda {

// `folders` as SharedLibrary::Open. A process has one such timer at a time.
//   NOT_FOUND            there is no CUPTI
//   FAILED_PRECONDITION  it lacks a function, may not be used by this user, or
//                        another timer or profiler has it
absl::StatusOr<std::unique_ptr<LaunchTimer>> MakeCuptiTimer(
    const std::string& folders);

}  // namespace gpupool::engine::cuda
