// Converts the surveys to JSON and back: a process that asked a driver returns
// its answer in that form.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "engine/backends/cuda/driver_survey.h"
#include "engine/backends/cuda/library_survey.h"
#include "engine/backends/cuda/nvml_survey.h"
#include "engine/runtime/module_architectures.h"
#include "server/worker/doctor/facts.h"

namespace gpupool::engine {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ModuleArchitectures, machine_code, ptx)

}  // namespace gpupool::engine

namespace gpupool::engine::cuda {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(SurveyedGpu, name, uuid, capability,
                                   total_bytes, virtual_memory, peers)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(DriverSurvey, loaded, load_error, path,
                                   version, code, call, gpus)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(NvmlProcess, pid, bytes)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(NvmlGpu, name, uuid, code, total_bytes,
                                   free_bytes, compute_mode, persistence, mig,
                                   uncorrected_errors, remap_pending,
                                   remap_failed, processes)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(NvmlSurvey, loaded, load_error, code,
                                   code_text, driver_version, gpus)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(SurveyedLibrary, name, file, path, version,
                                   state, detail, passed_over)

}  // namespace gpupool::engine::cuda

namespace gpupool::server {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ModuleSurvey, folders, path, load_error,
                                   count_error, architectures)

}  // namespace gpupool::server
