// Everything that the doctor knows before it judges.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "engine/backends/cuda/survey/driver_survey.h"
#include "engine/backends/cuda/survey/library_survey.h"
#include "engine/backends/cuda/survey/nvml_survey.h"
#include "engine/runtime/module_architectures.h"
#include "server/worker/doctor/host_facts.h"
#include "server/worker/doctor/place_facts.h"

namespace gpupool::server {

// gpupool's own CUDA module.
struct ModuleSurvey {
  std::string folders;      // in which it was looked for: "/a/bin or /a/lib"
  std::string path;         // empty: it is in none of them
  std::string load_error;   // empty: it is of this build and loads
  std::string count_error;  // why it sees no GPU; empty: it sees some
  engine::ModuleArchitectures architectures;  // of one that loads
};

struct DoctorFacts {
  HostFacts host;

  // Whether the rest was asked for at all, and whether each process that asked
  // for a part of it gave an answer.
  bool gpus_asked = false;
  absl::Status driver_asked;
  engine::cuda::DriverSurvey driver;
  absl::Status nvml_asked;
  engine::cuda::NvmlSurvey nvml;
  std::vector<engine::cuda::SurveyedLibrary> libraries;
  absl::Status module_asked;
  ModuleSurvey module;
  // Names of the processes that hold memory of GPUs, of those that we may see.
  std::map<int64_t, std::string> process_names;
  // In the words of `nvidia-smi topo -m`, each once.
  std::vector<std::string> links;

  uint64_t ring_bytes = 0;  // of each worker's slots
  StateFacts state;
  // Wrong folders in --cuda-lib-dir: "/a is not there".
  std::vector<std::string> folder_errors;
  std::vector<uint16_t> held_ports;
  std::vector<uint16_t> ports;  // gRPC, HTTP and metrics
};

}  // namespace gpupool::server
