// A GPU described to cuDNN, which makes plans for it without seeing it.
//
// Thread-safety: any thread.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

namespace gpupool::engine::cuda {

// What cudaGetDeviceProperties does not tell, as the driver's attributes do.
struct DeviceClocks {
  int multiprocessor_khz = 0;
  int memory_khz = 0;
  int driver_version = 0;  // that CUDA 13.0 calls 13000
};

// The JSON text of CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, cuDNN 9.8 and
// later.
std::string CudnnDescription(const cudaDeviceProp& properties,
                             const DeviceClocks& clocks);

}  // namespace gpupool::engine::cuda
