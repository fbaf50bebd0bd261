#include "engine/backends/cuda/driver/cuda_status.h"

#include "absl/strings/str_cat.h"
#include "engine/backends/cuda/driver/fault_class.h"

namespace gpupool::engine::cuda {

absl::Status StatusOf(cudaError_t error, absl::string_view what) {
  if (error == cudaSuccess) return absl::OkStatus();
  // Clears the thread's last error. An error that is sticky stays.
  cudaGetLastError();
  return FaultStatus(static_cast<int>(error), cudaGetErrorName(error),
                     cudaGetErrorString(error), what);
}

absl::Status StatusOf(CUresult error, absl::string_view what) {
  if (error == CUDA_SUCCESS) return absl::OkStatus();
  return FaultStatus(
      static_cast<int>(error), "driver",
      absl::StrCat("the driver refused with code ", static_cast<int>(error)),
      what);
}

}  // namespace gpupool::engine::cuda
