// Asks the CUDA driver about itself and its GPUs, for finding out why a GPU
// cannot be used. Uses libcuda.so.1 only: no runtime, no context, none of
// CUDA's headers. Every failure is a value.
//
// Thread-safety: any thread. A broken driver may hang or end the process, so
// ask in a separate process.
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
  bool virtual_memory = true;  // whether cuMemMap and the like work
  // Whether this GPU can reach the memory of each GPU, by index. True for
  // itself.
  std::vector<bool> peers;
};

struct DriverSurvey {
  bool loaded = false;
  std::string load_error;  // the dynamic linker's; empty when loaded
  std::string path;        // the library's; empty when not loaded
  int version = 0;         // of CUDA, as 13000; 0 when unknown
  int code = 0;            // of cuInit or of a later call that failed
  std::string call;        // the call that failed, as "cuInit"; or empty
  std::vector<SurveyedGpu> gpus;
};

DriverSurvey SurveyDriver(const std::string& library = "libcuda.so.1");

}  // namespace gpupool::engine::cuda
