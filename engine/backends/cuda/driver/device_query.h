// Lists the GPUs that the CUDA runtime sees, with their properties.
//
// Thread-safety: all functions may be called from any thread.
#pragma once

#include "absl/status/statusor.h"
#include "engine/runtime/device_facts.h"

namespace gpupool::engine::cuda {

// Returns at least 1. FAILED_PRECONDITION when there is no driver or no GPU.
absl::StatusOr<int> CountGpus();

// Returns a GPU's properties without creating a context. NOT_FOUND when no GPU
// has the index. Otherwise fails as CountGpus does.
absl::StatusOr<DeviceFacts> DescribeGpu(int index);

}  // namespace gpupool::engine::cuda
