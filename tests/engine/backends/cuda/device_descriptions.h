// cuDNN's descriptions of GPUs, for plans on machines without these GPUs.
// Numbers are from the CUDA C++ Programming Guide, "Technical Specifications
// per Compute Capability", and from NVIDIA's data sheets.
#pragma once

#include "absl/strings/string_view.h"

namespace gpupool::engine::cuda {

// An NVIDIA H200; compute capability 9.0 in that table.
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

// An NVIDIA A100 with 80 GB; compute capability 8.0 in that table.
inline constexpr absl::string_view kA100Description = R"({
  "deviceName": "NVIDIA A100-SXM4-80GB", "cudaDeviceId": 0, "deviceVer": 800,
  "driverVer": 13000, "totalGlobalMem": 85000000000,
  "multiProcessorCount": 108, "smClockRateKHz": 1410000,
  "memClockRateKHz": 1593000, "l2CacheSize": 41943040,
  "maxGridSize": [2147483647, 65535, 65535],
  "maxBlockSize": [1024, 1024, 64], "warpSize": 32,
  "regsPerBlock": 65536, "maxRegistersPerSM": 65536,
  "maxSharedMemoryPerBlock": 49152, "maxSharedMemoryPerBlockOptin": 166912,
  "reservedSharedMemoryPerBlock": 1024, "maxCtasPerSM": 32,
  "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048, "pciDeviceId": 0,
  "isTccDriver": 0, "supportCoopLaunch": 1})";

}  // namespace gpupool::engine::cuda
