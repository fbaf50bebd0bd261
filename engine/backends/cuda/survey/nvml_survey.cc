#include "engine/backends/cuda/survey/nvml_survey.h"

#include <array>
#include <cstddef>

#include "engine/backends/cuda/driver/nvml_interface.h"
#include "engine/backends/cuda/driver/shared_library.h"
#include "engine/base/job_limits.h"

namespace gpupool::engine::cuda {
namespace {

constexpr int kFunctionNotFound = 13;  // a code of the library
constexpr size_t kMostProcesses = 64;

// Old libraries may lack all but the first four.
struct NvmlFunctions {
  int (*init)() = nullptr;
  int (*shutdown)() = nullptr;
  int (*count)(unsigned*) = nullptr;
  int (*by_index)(unsigned, void**) = nullptr;
  const char* (*error_string)(int) = nullptr;
  int (*driver_version)(char*, unsigned) = nullptr;
  int (*name)(void*, char*, unsigned) = nullptr;
  int (*uuid)(void*, char*, unsigned) = nullptr;
  int (*memory)(void*, NvmlMemory*) = nullptr;
  int (*compute_mode)(void*, unsigned*) = nullptr;
  int (*persistence)(void*, unsigned*) = nullptr;
  int (*mig)(void*, unsigned*, unsigned*) = nullptr;
  int (*ecc)(void*, unsigned, unsigned, unsigned long long*) = nullptr;
  int (*remapped)(void*, unsigned*, unsigned*, unsigned*, unsigned*) = nullptr;
  int (*processes)(void*, unsigned*, NvmlProcessInfo*) = nullptr;
};

template <typename Function>
void FindOptional(const SharedLibrary& library, const char* name,
                  Function*& function) {
  library.Find({{name, function}}).IgnoreError();
}

void FindAll(const SharedLibrary& library, NvmlFunctions& f) {
  FindOptional(library, "nvmlErrorString", f.error_string);
  FindOptional(library, "nvmlSystemGetDriverVersion", f.driver_version);
  FindOptional(library, "nvmlDeviceGetName", f.name);
  FindOptional(library, "nvmlDeviceGetUUID", f.uuid);
  FindOptional(library, "nvmlDeviceGetMemoryInfo", f.memory);
  FindOptional(library, "nvmlDeviceGetComputeMode", f.compute_mode);
  FindOptional(library, "nvmlDeviceGetPersistenceMode", f.persistence);
  FindOptional(library, "nvmlDeviceGetMigMode", f.mig);
  FindOptional(library, "nvmlDeviceGetTotalEccErrors", f.ecc);
  FindOptional(library, "nvmlDeviceGetRemappedRows", f.remapped);
  FindOptional(library, "nvmlDeviceGetComputeRunningProcesses_v3", f.processes);
}

// Returns an empty text if the library does not tell. The buffer's last byte
// stays 0 and ends the text.
std::string ReadText(int (*function)(void*, char*, unsigned), void* device) {
  std::array<char, 97> text = {};
  if (function == nullptr ||
      function(device, text.data(), text.size() - 1) != kNvmlSuccess) {
    return "";
  }
  return text.data();
}

int64_t ReadNumber(int (*function)(void*, unsigned*), void* device) {
  unsigned number = 0;
  return function != nullptr && function(device, &number) == kNvmlSuccess
             ? int64_t{number}
             : kNotTold;
}

void ReadHealth(const NvmlFunctions& f, void* device, NvmlGpu& gpu) {
  unsigned long long errors = 0;
  if (f.ecc != nullptr && f.ecc(device, kNvmlUncorrected, kNvmlSinceDriverStart,
                                &errors) == kNvmlSuccess) {
    gpu.uncorrected_errors = static_cast<int64_t>(errors);
  }
  unsigned corrected = 0;
  unsigned uncorrected = 0;
  unsigned pending = 0;
  unsigned failed = 0;
  if (f.remapped != nullptr && f.remapped(device, &corrected, &uncorrected,
                                          &pending, &failed) == kNvmlSuccess) {
    gpu.remap_pending = pending;
    gpu.remap_failed = failed;
  }
}

NvmlGpu ReadGpu(const NvmlFunctions& f, void* device) {
  NvmlGpu gpu;
  gpu.name = ReadText(f.name, device);
  gpu.uuid = ReadText(f.uuid, device);
  NvmlMemory memory = {};
  const int code =
      f.memory == nullptr ? kFunctionNotFound : f.memory(device, &memory);
  if (code == kNvmlSuccess) {
    gpu.total_bytes = static_cast<int64_t>(memory.total);
    gpu.free_bytes = static_cast<int64_t>(memory.free);
  } else if (code == kNvmlGpuIsLost) {
    gpu.code = code;
  }
  gpu.compute_mode = ReadNumber(f.compute_mode, device);
  gpu.persistence = ReadNumber(f.persistence, device);
  unsigned current = 0;
  unsigned later = 0;
  if (f.mig != nullptr && f.mig(device, &current, &later) == kNvmlSuccess) {
    gpu.mig = current;
  }
  ReadHealth(f, device, gpu);
  std::array<NvmlProcessInfo, kMostProcesses> processes = {};
  unsigned count = processes.size();
  if (f.processes != nullptr &&
      f.processes(device, &count, processes.data()) == kNvmlSuccess) {
    for (unsigned i = 0; i < count && i < processes.size(); ++i) {
      const bool told = processes[i].bytes != kNvmlNotAvailable;
      gpu.processes.push_back(
          {processes[i].pid,
           told ? static_cast<int64_t>(processes[i].bytes) : kNotTold});
    }
  }
  return gpu;
}

void ReadAll(const NvmlFunctions& f, NvmlSurvey& survey) {
  std::array<char, 97> version = {};
  if (f.driver_version != nullptr &&
      f.driver_version(version.data(), version.size() - 1) == kNvmlSuccess) {
    survey.driver_version = version.data();
  }
  unsigned count = 0;
  survey.code = f.count(&count);
  for (unsigned i = 0;
       survey.code == kNvmlSuccess && i < count && i < unsigned{kMaxGpus};
       ++i) {
    void* device = nullptr;
    const int code = f.by_index(i, &device);
    if (code == kNvmlSuccess) {
      survey.gpus.push_back(ReadGpu(f, device));
    } else {
      // A GPU that does not answer stays in the list, with its error.
      survey.gpus.push_back({.code = code});
    }
  }
}

}  // namespace

NvmlSurvey SurveyNvml(const std::string& folders) {
  NvmlSurvey survey;
  const auto library = SharedLibrary::Open("libnvidia-ml.so.1", folders);
  if (!library.ok()) {
    survey.load_error = std::string(library.status().message());
    return survey;
  }
  survey.loaded = true;
  NvmlFunctions f;
  const absl::Status found =
      library->Find({{"nvmlInit_v2", f.init},
                     {"nvmlShutdown", f.shutdown},
                     {"nvmlDeviceGetCount_v2", f.count},
                     {"nvmlDeviceGetHandleByIndex_v2", f.by_index}});
  if (!found.ok()) {
    survey.code = kFunctionNotFound;
    survey.code_text = std::string(found.message());
    return survey;
  }
  FindAll(*library, f);
  survey.code = f.init();
  if (survey.code == kNvmlSuccess) {
    ReadAll(f, survey);
    f.shutdown();
  }
  if (survey.code != kNvmlSuccess && f.error_string != nullptr) {
    survey.code_text = f.error_string(survey.code);
  }
  return survey;
}

}  // namespace gpupool::engine::cuda
