// Describes a GPU to cuDNN, which makes plans for it without seeing it.
//
// Thread-safety: any thread.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

namespace gpupool::engine::cuda {

// Attributes of the driver that cudaGetDeviceProperties does not return.
struct DeviceClocks {
  int multiprocessor_khz = 0;
  int memory_khz = 0;
  int driver_version = 0;  // 13000 for CUDA 13.0
};

// Returns the text of CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION (cuDNN 9.8 and
// later).
std::string CudnnDescription(const cudaDeviceProp& properties,
                             const DeviceClocks& clocks);

}  // namespace gpupool::engine::cuda
