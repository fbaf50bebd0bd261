// Back ends that come as a module: a shared library that a worker loads when
// it is asked for a device of its kind, so that one worker binary runs on
// machines with and without a driver.
//
// Everything crosses the border by the virtual functions declared here and in
// device_backend.h, device_memory.h and page_source.h. Both sides compile the
// same headers: the loader asks for the build id before anything else.
//
// Thread-safety: a module's functions may be called from any thread; an open
// device is as its back end, but facts(), recordings() and Read() may be
// called from any thread. Ownership: a module outlives its devices and is never
// unloaded.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/memory/page_source.h"
#include "engine/memory/timeline.h"
#include "engine/runtime/device_backend.h"
#include "engine/runtime/device_facts.h"
#include "engine/runtime/launch_timer.h"
#include "engine/runtime/module_architectures.h"
#include "engine/runtime/recording_cache.h"

namespace gpupool::engine {

struct ModuleDeviceOptions {
  int index = 0;
  // Where to look for the vendor's libraries before the linker's own places:
  // folders, separated by colons.
  std::string vendor_library_dirs;
  // A folder where what the libraries chose is kept from one process to the
  // next; empty: nowhere.
  std::string plan_cache_dir;
  // Receives lines for the worker's log, on the compute thread; may be empty.
  std::function<void(absl::string_view)> log;
};

class ModuleDevice {
 public:
  virtual ~ModuleDevice() = default;

  // To be called on each thread that computes or allocates, before it does.
  virtual absl::Status MakeCurrent() = 0;
  virtual DeviceBackend& backend() = 0;
  // For programs that answer requests: what it queues does not wait for what
  // backend() has queued, and the device prefers it. Both are used from the
  // same thread, and memory that one of them writes is not used with the other.
  // Made at the first call.
  //   RESOURCE_EXHAUSTED, or other codes when the device fails
  virtual absl::StatusOr<DeviceBackend*> ServingBackend() { return &backend(); }
  // The device's memory and streams, for an allocator.
  virtual PageSource& pages() = 0;
  virtual TimelineSource& timeline() = 0;
  // Times launches on the device; null where nothing can.
  virtual LaunchTimer* timer() { return nullptr; }
  virtual const DeviceFacts& facts() const = 0;
  // Captured runs of both back ends; null where none are kept.
  virtual const RecordingCounters* recordings() const { return nullptr; }
  // UNIMPLEMENTED where the machine has nothing that could tell; DATA_LOSS
  // when the device is lost.
  virtual absl::StatusOr<DeviceReadings> Read() = 0;
};

class DeviceModule {
 public:
  virtual ~DeviceModule() = default;

  // FAILED_PRECONDITION when there is no driver or it is too old.
  virtual absl::StatusOr<int> CountDevices() = 0;
  // What it was built for; needs no driver.
  virtual ModuleArchitectures Architectures() const = 0;
  // NOT_FOUND for an index that no device has.
  virtual absl::StatusOr<DeviceFacts> Describe(int index) = 0;
  // As both. All empty where the machine has nothing that could tell.
  // `vendor_library_dirs`: see ModuleDeviceOptions.
  virtual absl::StatusOr<DeviceLinks> Links(
      const std::string& vendor_library_dirs) = 0;
  // As Describe; RESOURCE_EXHAUSTED when it has no memory for a context.
  virtual absl::StatusOr<std::unique_ptr<ModuleDevice>> Open(
      const ModuleDeviceOptions& options) = 0;
  // A back end whose kernels have the sizes of those that a device with these
  // facts would choose, and cannot run. Opens no device and needs none: the
  // facts may have been told by another process (Describe). What the vendor's
  // libraries tell only with a device counts as what the device's own process
  // noted in options.plan_cache_dir, or as the most that it may be.
  // `options.index` means nothing.
  //   FAILED_PRECONDITION  a library cannot plan without a device
  virtual absl::StatusOr<std::unique_ptr<DeviceBackend>> MakePlanner(
      const DeviceFacts& facts, const ModuleDeviceOptions& options) = 0;
};

// What a module exports, under this name: fills `entry`.
inline constexpr char kModuleSymbol[] = "gpupool_device_module";
struct ModuleEntry {
  const char* build_id = nullptr;
  DeviceModule* module = nullptr;  // lives as long as the process
};
using ModuleFunction = void (*)(ModuleEntry* entry);

// Loads a module and leaves it loaded.
//   NOT_FOUND            there is no such file
//   FAILED_PRECONDITION  it cannot be linked, is no module, or is of another
//                        build
absl::StatusOr<DeviceModule*> LoadDeviceModule(const std::string& path);

// The first of `folders`' files "libgpupool_cuda.so" that exists; NOT_FOUND
// with all of them named.
absl::StatusOr<std::string> FindCudaModule(
    const std::vector<std::string>& folders);

}  // namespace gpupool::engine
