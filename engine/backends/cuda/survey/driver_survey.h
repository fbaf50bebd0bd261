// What the CUDA driver says about itself and its GPUs, asked through
// libcuda.so.1 alone: no runtime, no context, no headers of CUDA's. For finding
// out why a GPU cannot be used, so every failure is a value.
//
// Thread-safety: any thread. A broken driver may hang or end the process:
// callers ask in a process of its own.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace gpupool::engine::cuda {

struct SurveyedGpu {
  std::string name;    // "NVIDIA H200"
  std::string uuid;    // "GPU-8f6e..."; of a MIG instance "MIG-..."
  int capability = 0;  // 90 for 9.0
  uint64_t total_bytes = 0;
  bool virtual_memory = true;  // whether cuMemMap and its like work
  // Whether this GPU reaches the memory of each one, by index; true for itself.
  std::vector<bool> peers;
};

struct DriverSurvey {
  bool loaded = false;
  std::string load_error;  // of the dynamic linker; empty when loaded
  std::string path;        // of the library; empty when not loaded
  int version = 0;         // of the CUDA that it runs: 13000; 0: not told
  int code = 0;            // of cuInit, or of the call that failed after it
  std::string call;        // that failed: "cuInit"; empty when none did
  std::vector<SurveyedGpu> gpus;
};

DriverSurvey SurveyDriver(const std::string& library = "libcuda.so.1");

}  // namespace gpupool::engine::cuda
