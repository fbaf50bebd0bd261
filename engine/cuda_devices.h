// Lists the GPUs that this machine's CUDA module can open, and opens one of
// them.
//
// Thread-safety: any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/runtime/device_module.h"

namespace gpupool::engine {

struct CudaOptions {
  // Folders to search for libgpupool_cuda.so. Empty: the folder of this program
  // and ../lib next to it.
  std::vector<std::string> module_dirs;
  // Folders of NVIDIA's libraries, separated by colons, to search before the
  // system's own. May be empty.
  std::string vendor_library_dirs;
  // A folder that keeps the choices of NVIDIA's libraries; empty: they are not
  // kept.
  std::string plan_cache_dir;
  // Receives lines for a log, on the compute thread. May be empty.
  std::function<void(absl::string_view)> log;
};

// Returns the facts of all GPUs by index, at least one.
//   NOT_FOUND            there is no module; names the folders
//   FAILED_PRECONDITION  there is no driver or no GPU, or the module is of
//                        another build
absl::StatusOr<std::vector<DeviceFacts>> ListCudaDevices(
    const CudaOptions& options);

// Returns the GPUs that the module was built for; needs neither driver nor GPU.
//   NOT_FOUND            there is no module; names the folders
//   FAILED_PRECONDITION  it is of another build, or cannot be loaded
absl::StatusOr<ModuleArchitectures> ListCudaArchitectures(
    const CudaOptions& options);

// Returns the connections between the GPUs. Errors as ListCudaDevices.
absl::StatusOr<DeviceLinks> ListCudaLinks(const CudaOptions& options);

// Opens a GPU. Errors as ListCudaDevices, and
//   NOT_FOUND            no GPU has this index; names their number
//   FAILED_PRECONDITION  the module has no kernels for it (CheckArchitecture)
absl::StatusOr<std::unique_ptr<ModuleDevice>> OpenCudaDevice(
    int index, const CudaOptions& options);

// A planner for a GPU that this process does not open.
struct CudaPlanner {
  DeviceFacts facts;
  std::unique_ptr<DeviceBackend> backend;  // from DeviceModule::MakePlanner
};

// Makes a planner for a GPU with the known facts. Without them it asks for
// those of the GPU with this index, with the errors of ListCudaDevices.
absl::StatusOr<CudaPlanner> MakeCudaPlanner(
    int index, const std::optional<DeviceFacts>& known,
    const CudaOptions& options);

// Returns the bytes that an allocator may take of a GPU: all but the needs of
// the worker's context, its kernels and libraries, and captured runs
// (RecordingBytes).
uint64_t UsableBytes(const DeviceFacts& facts);

}  // namespace gpupool::engine
