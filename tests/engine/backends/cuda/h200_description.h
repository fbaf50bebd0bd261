// cuDNN's description of an NVIDIA H200, for plans that are made where there is
// none. Numbers: CUDA C++ Programming Guide, "Technical Specifications per
// Compute Capability", 9.0, and NVIDIA's data sheet.
#pragma once

#include "absl/strings/string_view.h"

namespace gpupool::engine::cuda {

inline constexpr absl::string_view kH200Description = R"({
  "deviceName": "NVIDIA H200", "cudaDeviceId": 0, "deviceVer": 900,
  "driverVer": 13000, "totalGlobalMem": 150000000000,
  "multiProcessorCount": 132, "smClockRateKHz": 1980000,
  "memClockRateKHz": 3201000, "l2CacheSize": 62914560,
  "maxGridSize": [2147483647, 65535, 65535],
  "maxBlockSize": [1024, 1024, 64], "warpSize": 32,
  "regsPerBlock": 65536, "maxRegistersPerSM": 65536,
  "maxSharedMemoryPerBlock": 49152, "maxSharedMemoryPerBlockOptin": 232448,
  "reservedSharedMemoryPerBlock": 1024, "maxCtasPerSM": 32,
  "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048, "pciDeviceId": 0,
  "isTccDriver": 0, "supportCoopLaunch": 1})";

}  // namespace gpupool::engine::cuda
