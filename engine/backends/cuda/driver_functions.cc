#include "engine/backends/cuda/driver_functions.h"

#include <cuda_runtime_api.h>

#include "absl/strings/str_cat.h"
#include "engine/backends/cuda/cuda_status.h"
#include "engine/base/status_macros.h"

namespace gpupool::engine::cuda {
namespace {

// All of these are in every driver that runs CUDA 12; the version chooses the
// form of a function that the headers here declare.
constexpr unsigned kVersion = 12000;

template <typename Function>
absl::Status Find(const char* name, Function& function) {
  void* address = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
  RETURN_IF_ERROR(
      StatusOf(cudaGetDriverEntryPointByVersion(name, &address, kVersion,
                                                cudaEnableDefault, &found),
               absl::StrCat("finding ", name)));
  if (found != cudaDriverEntryPointSuccess || address == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("the NVIDIA driver has no ", name,
                     "; install a driver for CUDA 12 or later"));
  }
  function = reinterpret_cast<Function>(address);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<DriverFunctions> FindDriverFunctions() {
  DriverFunctions functions;
  RETURN_IF_ERROR(Find("cuDeviceGet", functions.device_get));
  RETURN_IF_ERROR(Find("cuMemGetAllocationGranularity", functions.granularity));
  RETURN_IF_ERROR(Find("cuMemAddressReserve", functions.reserve));
  RETURN_IF_ERROR(Find("cuMemAddressFree", functions.free_range));
  RETURN_IF_ERROR(Find("cuMemCreate", functions.create));
  RETURN_IF_ERROR(Find("cuMemRelease", functions.release));
  RETURN_IF_ERROR(Find("cuMemMap", functions.map));
  RETURN_IF_ERROR(Find("cuMemUnmap", functions.unmap));
  RETURN_IF_ERROR(Find("cuMemSetAccess", functions.set_access));
  RETURN_IF_ERROR(Find("cuStreamWriteValue64", functions.write_value));
  return functions;
}

}  // namespace gpupool::engine::cuda
