// A back end that plans for a GPU that another process owns. It chooses the
// same kernels, but only their sizes are known. It makes no call of CUDA and so
// no context. It also works without a driver.
//
// Thread-safety: as every DeviceBackend, for one thread.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "engine/runtime/device_module.h"

namespace gpupool::engine::cuda {

// Does what DeviceModule::MakePlanner specifies. `facts` must come from
// DescribeGpu.
absl::StatusOr<std::unique_ptr<DeviceBackend>> MakePlanningBackend(
    const DeviceFacts& facts, const ModuleDeviceOptions& options);

}  // namespace gpupool::engine::cuda
