#include "engine/backends/cuda/driver/device_query.h"

#include <cuda_runtime_api.h>

#include <array>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/backends/cuda/driver/cuda_status.h"
#include "engine/backends/cuda/driver/device_description.h"
#include "engine/backends/cuda/driver/driver_version.h"
#include "engine/base/status_macros.h"

namespace gpupool::engine::cuda {
namespace {

// Returns "GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx", as nvidia-smi writes it.
std::string UuidText(const cudaUUID_t& uuid) {
  std::string text = "GPU-";
  for (int i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    absl::StrAppendFormat(&text, "%02x",
                          static_cast<unsigned char>(uuid.bytes[i]));
  }
  return text;
}

std::string VersionText(int version) {
  // 13000 is 13.0, 12090 is 12.9.
  return absl::StrCat(version / 1000, ".", version % 1000 / 10);
}

// Returns 0 for a clock that the driver does not tell.
DeviceClocks ClocksOf(int index, int driver_version) {
  DeviceClocks clocks{.driver_version = driver_version};
  cudaDeviceGetAttribute(&clocks.multiprocessor_khz, cudaDevAttrClockRate,
                         index);
  cudaDeviceGetAttribute(&clocks.memory_khz, cudaDevAttrMemoryClockRate, index);
  return clocks;
}

// Returns 0 for a number that the driver does not tell.
uint32_t Positive(int number) {
  return number > 0 ? static_cast<uint32_t>(number) : 0;
}

}  // namespace

absl::StatusOr<int> CountGpus() {
  int count = 0, driver = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  // CUDA reports a missing driver as too old, with version 0.
  if (error == cudaErrorInsufficientDriver &&
      cudaDriverGetVersion(&driver) == cudaSuccess) {
    return absl::FailedPreconditionError(
        driver == 0
            ? "there is no NVIDIA driver: libcuda.so.1 is missing; install the "
              "driver, or start the container with --gpus all"
            : absl::StrCat("the NVIDIA driver is made for CUDA ",
                           VersionText(driver), ", the module for ",
                           VersionText(CUDART_VERSION),
                           "; install a newer driver"));
  }
  RETURN_IF_ERROR(StatusOf(error, "looking for NVIDIA GPUs"));
  if (count > 0) return count;
  return absl::FailedPreconditionError("the NVIDIA driver shows no GPU");
}

absl::StatusOr<DeviceFacts> DescribeGpu(int index) {
  ASSIGN_OR_RETURN(const int count, CountGpus());
  if (index < 0 || index >= count) {
    return absl::NotFoundError(absl::StrCat("there is no GPU ", index,
                                            ": the NVIDIA driver shows ", count,
                                            " (numbered from 0)"));
  }
  cudaDeviceProp properties = {};
  RETURN_IF_ERROR(StatusOf(cudaGetDeviceProperties(&properties, index),
                           absl::StrCat("describing GPU ", index)));
  DeviceFacts facts;
  facts.name = properties.name;
  facts.uuid = UuidText(properties.uuid);
  facts.compute_capability =
      absl::StrCat(properties.major, ".", properties.minor);
  facts.multiprocessors = static_cast<uint32_t>(properties.multiProcessorCount);
  facts.threads_per_multiprocessor =
      static_cast<uint32_t>(properties.maxThreadsPerMultiProcessor);
  facts.total_bytes = properties.totalGlobalMem;
  std::array<char, 32> bus = {};
  if (cudaDeviceGetPCIBusId(bus.data(), static_cast<int>(bus.size()), index) ==
      cudaSuccess) {
    facts.pci_bus_id = bus.data();
  }
  int version = 0;
  if (cudaDriverGetVersion(&version) == cudaSuccess) {
    facts.cuda_version = VersionText(version);
  }
  facts.driver_version = LoadedDriverVersion();
  const DeviceClocks clocks = ClocksOf(index, version);
  facts.properties = CudnnDescription(properties, clocks);
  facts.clock_khz = Positive(clocks.multiprocessor_khz);
  facts.memory_clock_khz = Positive(clocks.memory_khz);
  facts.memory_bus_bits = Positive(properties.memoryBusWidth);
  return facts;
}

}  // namespace gpupool::engine::cuda
