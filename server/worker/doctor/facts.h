// The facts on which the doctor's findings are based.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "engine/backends/cuda/driver_survey.h"
#include "engine/backends/cuda/library_survey.h"
#include "engine/backends/cuda/nvml_survey.h"
#include "engine/runtime/module_architectures.h"
#include "server/worker/doctor/host_facts.h"
#include "server/worker/doctor/place_facts.h"

namespace gpupool::server {

// Survey of gpupool's own CUDA module.
struct ModuleSurvey {
  std::string folders;      // folders searched: "/a/bin or /a/lib"
  std::string path;         // empty: in none of them
  std::string load_error;   // empty: of this build, and loads
  std::string count_error;  // why it sees no GPU; empty: sees some
  engine::ModuleArchitectures architectures;  // set for a module that loads
};

struct DoctorFacts {
  HostFacts host;

  // Whether GPUs were asked about at all, and whether each process that asked
  // for a part answered.
  bool gpus_asked = false;
  absl::Status driver_asked;
  engine::cuda::DriverSurvey driver;
  absl::Status nvml_asked;
  engine::cuda::NvmlSurvey nvml;
  std::vector<engine::cuda::SurveyedLibrary> libraries;
  absl::Status module_asked;
  ModuleSurvey module;
  // Names of the visible processes that hold memory of GPUs.
  std::map<int64_t, std::string> process_names;
  // Words of `nvidia-smi topo -m`, each once.
  std::vector<std::string> links;

  uint64_t ring_bytes = 0;  // slots of each worker
  StateFacts state;
  // Errors of the folders in --cuda-lib-dir: "/a is not there".
  std::vector<std::string> folder_errors;
  std::vector<uint16_t> held_ports;
  std::vector<uint16_t> ports;  // gRPC, HTTP and metrics
};

}  // namespace gpupool::server
