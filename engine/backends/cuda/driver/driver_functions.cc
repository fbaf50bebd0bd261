#include "engine/backends/cuda/driver/driver_functions.h"

#include <cuda_runtime_api.h>

#include <initializer_list>

#include "absl/strings/str_cat.h"
#include "engine/backends/cuda/driver/cuda_status.h"
#include "engine/backends/cuda/driver/shared_library.h"
#include "engine/base/status_macros.h"

namespace gpupool::engine::cuda {
namespace {

// Every driver that runs CUDA 12 has all of these. The version selects the form
// of a function that the headers here declare.
constexpr unsigned kVersion = 12000;

absl::Status FindInDriver(std::initializer_list<FunctionSlot> functions) {
  for (const FunctionSlot& function : functions) {
    void* address = nullptr;
    cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
    RETURN_IF_ERROR(StatusOf(
        cudaGetDriverEntryPointByVersion(function.name(), &address, kVersion,
                                         cudaEnableDefault, &found),
        absl::StrCat("finding ", function.name())));
    if (found != cudaDriverEntryPointSuccess || address == nullptr) {
      return absl::FailedPreconditionError(
          absl::StrCat("the NVIDIA driver has no ", function.name(),
                       "; install a driver for CUDA 12 or later"));
    }
    function.Set(address);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<DriverFunctions> FindDriverFunctions() {
  DriverFunctions functions;
  RETURN_IF_ERROR(
      FindInDriver({{"cuDeviceGet", functions.device_get},
                    {"cuMemGetAllocationGranularity", functions.granularity},
                    {"cuMemAddressReserve", functions.reserve},
                    {"cuMemAddressFree", functions.free_range},
                    {"cuMemCreate", functions.create},
                    {"cuMemRelease", functions.release},
                    {"cuMemMap", functions.map},
                    {"cuMemUnmap", functions.unmap},
                    {"cuMemSetAccess", functions.set_access},
                    {"cuStreamWriteValue64", functions.write_value}}));
  return functions;
}

}  // namespace gpupool::engine::cuda
