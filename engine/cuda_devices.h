// The GPUs that this machine's CUDA module can open, and opening one of them.
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
  // Where libgpupool_cuda.so may lie. Empty: beside this program and in ../lib
  // of it.
  std::vector<std::string> module_dirs;
  // Folders of NVIDIA's libraries, separated by colons, before the system's own
  // places; may be empty.
  std::string vendor_library_dirs;
  // Where what NVIDIA's libraries chose is kept; empty: nowhere.
  std::string plan_cache_dir;
  // Receives lines for a log, on the compute thread; may be empty.
  std::function<void(absl::string_view)> log;
};

// By index, at least one.
//   NOT_FOUND            there is no module; names the folders
//   FAILED_PRECONDITION  there is no driver or no GPU, or the module is of
//                        another build
absl::StatusOr<std::vector<DeviceFacts>> ListCudaDevices(
    const CudaOptions& options);

// What the module was built for; needs neither driver nor GPU.
//   NOT_FOUND            there is no module; names the folders
//   FAILED_PRECONDITION  it is of another build, or cannot be loaded
absl::StatusOr<ModuleArchitectures> ListCudaArchitectures(
    const CudaOptions& options);

// Between those devices; as ListCudaDevices.
absl::StatusOr<DeviceLinks> ListCudaLinks(const CudaOptions& options);

// As ListCudaDevices, and NOT_FOUND for an index that no GPU has, with how
// many there are; FAILED_PRECONDITION too when the module has no kernels for
// the GPU (CheckArchitecture).
absl::StatusOr<std::unique_ptr<ModuleDevice>> OpenCudaDevice(
    int index, const CudaOptions& options);

// Plans for a GPU that this process does not open.
struct CudaPlanner {
  DeviceFacts facts;
  std::unique_ptr<DeviceBackend> backend;  // as DeviceModule::MakePlanner
};

// For a GPU with these facts, or without any for the one with this index, which
// is described then as by ListCudaDevices.
absl::StatusOr<CudaPlanner> MakeCudaPlanner(
    int index, const std::optional<DeviceFacts>& known,
    const CudaOptions& options);

// What an allocator may take of a GPU: all but what the worker's context, its
// kernels and libraries, and captured runs (RecordingBytes) need.
uint64_t UsableBytes(const DeviceFacts& facts);

}  // namespace gpupool::engine
