// Functions of the CUDA driver, found at run time through the runtime. Nothing
// here links libcuda. So the module can be loaded without a driver, and can
// report that it is missing.
#pragma once

#include <cuda.h>

#include "absl/status/statusor.h"

namespace gpupool::engine::cuda {

struct DriverFunctions {
  decltype(&::cuDeviceGet) device_get = nullptr;
  decltype(&::cuMemGetAllocationGranularity) granularity = nullptr;
  decltype(&::cuMemAddressReserve) reserve = nullptr;
  decltype(&::cuMemAddressFree) free_range = nullptr;
  decltype(&::cuMemCreate) create = nullptr;
  decltype(&::cuMemRelease) release = nullptr;
  decltype(&::cuMemMap) map = nullptr;
  decltype(&::cuMemUnmap) unmap = nullptr;
  decltype(&::cuMemSetAccess) set_access = nullptr;
  decltype(&::cuStreamWriteValue64) write_value = nullptr;
};

// Finds the functions. FAILED_PRECONDITION when there is no driver or it lacks
// a function.
absl::StatusOr<DriverFunctions> FindDriverFunctions();

}  // namespace gpupool::engine::cuda
