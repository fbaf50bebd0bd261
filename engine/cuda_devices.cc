#include "engine/cuda_devices.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "engine/base/status_macros.h"

namespace gpupool::engine {
namespace {

// One context, the worker's, with its kernels is about 0.5 GB on today's GPUs;
// as much again is for what NVIDIA's libraries take, and a half of it for what
// differs between drivers.
constexpr uint64_t kMostReserved = uint64_t{3} << 29;
constexpr uint64_t kReservedShare = 64;
constexpr uint64_t kReservedShares = 3;
constexpr uint64_t kPage = uint64_t{2} << 20;

std::vector<std::string> ModuleDirs(const CudaOptions& options) {
  if (!options.module_dirs.empty()) return options.module_dirs;
  std::error_code error;
  const std::filesystem::path folder =
      std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
  return {folder.string(), (folder / "../lib").lexically_normal().string()};
}

absl::StatusOr<DeviceModule*> FindModule(const CudaOptions& options) {
  ASSIGN_OR_RETURN(const auto path, FindCudaModule(ModuleDirs(options)));
  return LoadDeviceModule(path);
}

ModuleDeviceOptions OptionsFor(int index, const CudaOptions& options) {
  return {.index = index,
          .vendor_library_dirs = options.vendor_library_dirs,
          .plan_cache_dir = options.plan_cache_dir,
          .log = options.log};
}

}  // namespace

absl::StatusOr<std::vector<DeviceFacts>> ListCudaDevices(
    const CudaOptions& options) {
  ASSIGN_OR_RETURN(DeviceModule* const module, FindModule(options));
  ASSIGN_OR_RETURN(const int count, module->CountDevices());
  std::vector<DeviceFacts> devices;
  for (int i = 0; i < count; ++i) {
    ASSIGN_OR_RETURN(DeviceFacts facts, module->Describe(i));
    devices.push_back(std::move(facts));
  }
  return devices;
}

absl::StatusOr<ModuleArchitectures> ListCudaArchitectures(
    const CudaOptions& options) {
  ASSIGN_OR_RETURN(DeviceModule* const module, FindModule(options));
  return module->Architectures();
}

absl::StatusOr<DeviceLinks> ListCudaLinks(const CudaOptions& options) {
  ASSIGN_OR_RETURN(DeviceModule* const module, FindModule(options));
  return module->Links(options.vendor_library_dirs);
}

absl::StatusOr<std::unique_ptr<ModuleDevice>> OpenCudaDevice(
    int index, const CudaOptions& options) {
  ASSIGN_OR_RETURN(DeviceModule* const module, FindModule(options));
  ASSIGN_OR_RETURN(const DeviceFacts facts, module->Describe(index));
  RETURN_IF_ERROR(CheckArchitecture(module->Architectures(), facts));
  return module->Open(OptionsFor(index, options));
}

absl::StatusOr<CudaPlanner> MakeCudaPlanner(
    int index, const std::optional<DeviceFacts>& known,
    const CudaOptions& options) {
  ASSIGN_OR_RETURN(DeviceModule* const module, FindModule(options));
  CudaPlanner planner;
  if (known.has_value()) {
    planner.facts = *known;
  } else {
    ASSIGN_OR_RETURN(planner.facts, module->Describe(index));
  }
  ASSIGN_OR_RETURN(
      planner.backend,
      module->MakePlanner(planner.facts, OptionsFor(index, options)));
  return planner;
}

uint64_t UsableBytes(const DeviceFacts& facts) {
  const uint64_t reserved =
      std::min(kMostReserved,
               facts.total_bytes / kReservedShare * kReservedShares) +
      RecordingBytes(facts.total_bytes);
  return (facts.total_bytes - reserved) / kPage * kPage;
}

}  // namespace gpupool::engine
