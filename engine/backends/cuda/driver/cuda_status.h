// Errors of the CUDA runtime and driver as statuses.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace gpupool::engine::cuda {

// Of a runtime call; forgets the error where the context is still sound, so
// that the next call does not report it again. `what` names the call's aim.
absl::Status StatusOf(cudaError_t error, absl::string_view what);
// Of a driver call. The codes that matter are the runtime's.
absl::Status StatusOf(CUresult error, absl::string_view what);

}  // namespace gpupool::engine::cuda
