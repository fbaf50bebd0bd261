#include "engine/cuda_devices.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "engine/base/status_macros.h"

namespace gpupool::engine {
namespace {

// Bytes that the allocator leaves to others: at most 1.5 GiB and at most 3/64
// of the GPU. The worker's context with its kernels takes about 0.5 GB on
// current GPUs. As much again is for NVIDIA's libraries, and the rest for
// differences between drivers.
constexpr uint64_t kMostReserved = uint64_t{3} << 29;
constexpr uint64_t kReservedShare = 64;
constexpr uint64_t kReservedShares = 3;
constexpr uint64_t kPage = uint64_t{2} << 20;

// Returns the given folders, or by default those of an installed program.
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
  // Checked before the device is opened: without kernels the first launch would
  // fail, and its error names no remedy.
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
  // The allocator maps whole pages of 2 MiB.
  return (facts.total_bytes - reserved) / kPage * kPage;
}

}  // namespace gpupool::engine
