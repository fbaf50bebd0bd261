// The device of a session: its kernels, its memory under an allocator, and its
// facts. It hides whether the device is the host's processor or the GPU of a
// module.
//
// Thread-safety: the back ends belong to the compute thread, after MakeCurrent
// there. All other functions may be called from any thread.
// Ownership: it owns everything that it hands out.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/memory/caching_allocator.h"
#include "engine/runtime/device_module.h"
#include "engine/runtime/peak_rates.h"

namespace gpupool::engine {

class SessionDevice {
 public:
  // Makes a device of `threads` (>= 1) threads of the processor and the
  // machine's memory. A limit of 0 bytes means all of it.
  static std::unique_ptr<SessionDevice> OfHost(const std::string& name,
                                               uint64_t limit_bytes,
                                               int threads);
  // Makes a device of a module. A limit of 0 bytes means UsableBytes.
  //   INVALID_ARGUMENT  the limit is larger than that
  static absl::StatusOr<std::unique_ptr<SessionDevice>> OfModule(
      const std::string& name, uint64_t limit_bytes,
      std::unique_ptr<ModuleDevice> device);
  ~SessionDevice();
  SessionDevice(const SessionDevice&) = delete;
  SessionDevice& operator=(const SessionDevice&) = delete;

  // Makes the device current. Call it first on each thread that computes or
  // allocates.
  absl::Status MakeCurrent();
  DeviceBackend& backend() { return *backend_; }
  // Returns ModuleDevice::ServingBackend; on the host, backend().
  absl::StatusOr<DeviceBackend*> ServingBackend();
  CachingAllocator& allocator() { return *allocator_; }
  // Returns the allocator's limit before any fraction.
  uint64_t limit_bytes() const { return limit_bytes_; }
  // Returns the model of the processor or GPU; may be empty.
  const std::string& description() const { return description_; }
  // Returns null on the host.
  const DeviceFacts* facts() const;
  // Returns zeros for rates that the facts of the hardware do not tell.
  const PeakRates& peak_rates() const { return peak_rates_; }
  // Returns ModuleDevice::recordings; null on the host.
  const RecordingCounters* recordings() const {
    return module_ == nullptr ? nullptr : module_->recordings();
  }
  // Returns ModuleDevice::timer; null on the host.
  LaunchTimer* timer() {
    return module_ == nullptr ? nullptr : module_->timer();
  }
  // Returns ModuleDevice::Read; UNIMPLEMENTED on the host.
  absl::StatusOr<DeviceReadings> Read();

 private:
  SessionDevice() = default;

  // The order matters: later members use earlier ones.
  std::unique_ptr<ModuleDevice> module_;  // null on the host
  std::unique_ptr<PageSource> host_pages_;
  std::unique_ptr<DeviceBackend> host_backend_;
  DeviceBackend* backend_ = nullptr;
  std::unique_ptr<CachingAllocator> allocator_;
  uint64_t limit_bytes_ = 0;
  std::string description_;
  PeakRates peak_rates_;
};

}  // namespace gpupool::engine
