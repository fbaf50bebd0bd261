// Constants and structures of NVIDIA's management library that both nvml.h and
// survey/nvml_survey.h use. Its interface never changes. Plain values.
#pragma once

namespace gpupool::engine::cuda {

// Return codes.
inline constexpr int kNvmlSuccess = 0;
inline constexpr int kNvmlGpuIsLost = 15;
// The kind and the counter of memory errors (ECC).
inline constexpr unsigned kNvmlUncorrected = 1;
inline constexpr unsigned kNvmlSinceDriverStart = 0;
// NvmlProcessInfo::bytes when the driver does not know them.
inline constexpr unsigned long long kNvmlNotAvailable = ~0ULL;

// nvmlMemory_t.
struct NvmlMemory {
  unsigned long long total;
  unsigned long long free;
  unsigned long long used;
};

// nvmlProcessInfo_t of nvmlDeviceGetComputeRunningProcesses_v3.
struct NvmlProcessInfo {
  unsigned pid;
  unsigned long long bytes;
  unsigned gpu_instance;
  unsigned compute_instance;
};

}  // namespace gpupool::engine::cuda
