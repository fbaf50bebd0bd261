// Turns errors of the CUDA runtime and driver into statuses.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace gpupool::engine::cuda {

// Returns the status of a runtime call. `what` names the call's aim. Clears the
// error if the context is still sound, so that the next call does not report it
// again.
absl::Status StatusOf(cudaError_t error, absl::string_view what);
// Returns the status of a driver call. The codes that matter are the runtime's.
absl::Status StatusOf(CUresult error, absl::string_view what);

}  // namespace gpupool::engine::cuda
