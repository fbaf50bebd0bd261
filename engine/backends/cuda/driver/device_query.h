// Which GPUs the CUDA runtime sees, and what they are.
//
// Thread-safety: all functions may be called from any thread.
#pragma once

#include "absl/status/statusor.h"
#include "engine/runtime/device_facts.h"

namespace gpupool::engine::cuda {

// At least 1. FAILED_PRECONDITION when there is no driver or no GPU.
absl::StatusOr<int> CountGpus();

// Creates no context. NOT_FOUND for an index that no GPU has; else as
// CountGpus.
absl::StatusOr<DeviceFacts> DescribeGpu(int index);

}  // namespace gpupool::engine::cuda
