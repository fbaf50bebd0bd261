// Asks NVIDIA's management library once about all GPUs of the machine,
// including those that CUDA does not show: their settings and who holds their
// memory. If the library fails, returns its code. nvml.h reads one GPU
// repeatedly.
//
// Thread-safety: any thread. A broken driver may hang: see driver_survey.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace gpupool::engine::cuda {

// A number that the library did not tell.
inline constexpr int64_t kNotTold = -1;

struct NvmlProcess {
  int64_t pid = 0;
  int64_t bytes = kNotTold;
};

struct NvmlGpu {
  std::string name;
  std::string uuid;
  int code = 0;  // of the first call that found the GPU lost; 0: none
  int64_t total_bytes = kNotTold;
  int64_t free_bytes = kNotTold;
  int64_t compute_mode =
      kNotTold;                    // 0 default, 2 prohibited, 1 and 3 exclusive
  int64_t persistence = kNotTold;  // 0 off, 1 on
  int64_t mig = kNotTold;          // 0 off, 1 on
  int64_t uncorrected_errors = kNotTold;  // of memory, since the driver started
  int64_t remap_pending = kNotTold;       // 1: rows wait for a reset
  int64_t remap_failed = kNotTold;        // 1: no spare rows were left
  std::vector<NvmlProcess> processes;
};

struct NvmlSurvey {
  bool loaded = false;
  std::string load_error;      // the dynamic linker's; empty when loaded
  int code = 0;                // of nvmlInit_v2 or nvmlDeviceGetCount_v2
  std::string code_text;       // the library's text for the code
  std::string driver_version;  // "580.159.03"; empty when unknown
  std::vector<NvmlGpu> gpus;
};

// Looks in `folders`, which are separated by colons, and where the dynamic
// linker looks.
NvmlSurvey SurveyNvml(const std::string& folders);

}  // namespace gpupool::engine::cuda
