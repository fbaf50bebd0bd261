// Plans for a GPU that another process owns: the kernels that it would choose,
// of which only the sizes are known. No call of CUDA is made, so no context: it
// works on a machine without a driver, too.
//
// Thread-safety: as every DeviceBackend, for one thread.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "engine/runtime/device_module.h"

namespace gpupool::engine::cuda {

// As DeviceModule::MakePlanner, for facts of DescribeGpu.
absl::StatusOr<std::unique_ptr<DeviceBackend>> MakePlanningBackend(
    const DeviceFacts& facts, const ModuleDeviceOptions& options);

}  // namespace gpupool::engine::cuda
