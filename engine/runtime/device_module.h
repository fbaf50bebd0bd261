// Back ends in modules: shared libraries that a worker loads when it needs a
// device of their kind. One worker binary therefore runs on machines with and
// without a driver.
//
// All calls cross the border through the virtual functions declared here and in
// device_backend.h, device_memory.h and page_source.h. Both sides must be
// compiled with the same headers, so the loader checks the build id first.
//
// Thread-safety: a module's functions may be called from any thread. An open
// device has the thread-safety of its back end, but facts(), recordings() and
// Read() may be called from any thread.
// Ownership: a module outlives its devices and is never unloaded.
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
  // Folders with the vendor's libraries, separated by colons, to search before
  // the linker's own.
  std::string vendor_library_dirs;
  // A folder that keeps the choices of the libraries for later processes;
  // empty: they are not kept.
  std::string plan_cache_dir;
  // Receives lines for the worker's log, on the compute thread. May be empty.
  std::function<void(absl::string_view)> log;
};

class ModuleDevice {
 public:
  virtual ~ModuleDevice() = default;

  // Makes the device current. Call it first on each thread that computes or
  // allocates.
  virtual absl::Status MakeCurrent() = 0;
  virtual DeviceBackend& backend() = 0;
  // Returns the back end for programs that answer requests, made at the first
  // call. Its work does not wait for the work of backend(), and the device
  // prefers it. Both must be used from the same thread, and memory that one of
  // them writes must not be used with the other.
  //   RESOURCE_EXHAUSTED, or other codes when the device fails
  virtual absl::StatusOr<DeviceBackend*> ServingBackend() { return &backend(); }
  // Return the device's memory and streams, for an allocator.
  virtual PageSource& pages() = 0;
  virtual TimelineSource& timeline() = 0;
  // Returns a timer of launches on the device; null if it has none.
  virtual LaunchTimer* timer() { return nullptr; }
  virtual const DeviceFacts& facts() const = 0;
  // Returns the captured runs of both back ends; null if none are kept.
  virtual const RecordingCounters* recordings() const { return nullptr; }
  // Returns the current readings. UNIMPLEMENTED when the machine cannot provide
  // them; DATA_LOSS when the device is lost.
  virtual absl::StatusOr<DeviceReadings> Read() = 0;
};

class DeviceModule {
 public:
  virtual ~DeviceModule() = default;

  // Returns the number of devices. FAILED_PRECONDITION when there is no driver
  // or it is too old.
  virtual absl::StatusOr<int> CountDevices() = 0;
  // Returns the GPUs that it was built for; needs no driver.
  virtual ModuleArchitectures Architectures() const = 0;
  // Returns the facts of a device. NOT_FOUND for an unknown index.
  virtual absl::StatusOr<DeviceFacts> Describe(int index) = 0;
  // Returns the connections between the devices, with the errors of
  // CountDevices and Describe. All are empty when the machine cannot tell.
  // `vendor_library_dirs`: see ModuleDeviceOptions.
  virtual absl::StatusOr<DeviceLinks> Links(
      const std::string& vendor_library_dirs) = 0;
  // Opens a device. Errors as Describe; RESOURCE_EXHAUSTED when it has no
  // memory for a context.
  virtual absl::StatusOr<std::unique_ptr<ModuleDevice>> Open(
      const ModuleDeviceOptions& options) = 0;
  // Returns a back end for plans. Its kernels have the sizes of those that a
  // device with these facts would choose, but cannot run. It opens no device,
  // and the facts may come from another process (Describe). Sizes that the
  // vendor's libraries tell only with a device are read from
  // options.plan_cache_dir, where the device's own process noted them;
  // otherwise they count as the largest possible. `options.index` is ignored.
  //   FAILED_PRECONDITION  a library cannot plan without a device
  virtual absl::StatusOr<std::unique_ptr<DeviceBackend>> MakePlanner(
      const DeviceFacts& facts, const ModuleDeviceOptions& options) = 0;
};

// The name of a module's only export, which fills `entry`.
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

// Returns the first existing "libgpupool_cuda.so" in `folders`. NOT_FOUND names
// all folders.
absl::StatusOr<std::string> FindCudaModule(
    const std::vector<std::string>& folders);

}  // namespace gpupool::engine
