// The device of a session: its kernels, its memory under an allocator, and what
// it is. The same for the host's processor and for the GPU of a module; nothing
// above knows which it is.
//
// Thread-safety: the back ends are the compute thread's, after MakeCurrent
// there; everything else serves any thread. Ownership: owns all that it hands
// out.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/memory/caching_allocator.h"
#include "engine/runtime/device_module.h"

namespace gpupool::engine {

class SessionDevice {
 public:
  // So many threads (>= 1) of the processor, and the machine's memory. A limit
  // of 0 bytes is all of it.
  static std::unique_ptr<SessionDevice> OfHost(const std::string& name,
                                               uint64_t limit_bytes,
                                               int threads);
  // A limit of 0 bytes is UsableBytes.
  //   INVALID_ARGUMENT  the limit is more than that
  static absl::StatusOr<std::unique_ptr<SessionDevice>> OfModule(
      const std::string& name, uint64_t limit_bytes,
      std::unique_ptr<ModuleDevice> device);
  ~SessionDevice();
  SessionDevice(const SessionDevice&) = delete;
  SessionDevice& operator=(const SessionDevice&) = delete;

  // To be called on each thread that computes or allocates, before it does.
  absl::Status MakeCurrent();
  DeviceBackend& backend() { return *backend_; }
  // As ModuleDevice::ServingBackend; on the host the same as backend().
  absl::StatusOr<DeviceBackend*> ServingBackend();
  CachingAllocator& allocator() { return *allocator_; }
  // Of the allocator, as long as no fraction is set.
  uint64_t limit_bytes() const { return limit_bytes_; }
  // Model of the processor or GPU; may be empty.
  const std::string& description() const { return description_; }
  // Null on the host.
  const DeviceFacts* facts() const;
  // As ModuleDevice::recordings; null on the host.
  const RecordingCounters* recordings() const {
    return module_ == nullptr ? nullptr : module_->recordings();
  }
  // As ModuleDevice::timer; null on the host.
  LaunchTimer* timer() {
    return module_ == nullptr ? nullptr : module_->timer();
  }
  // As ModuleDevice::Read; UNIMPLEMENTED on the host.
  absl::StatusOr<DeviceReadings> Read();

 private:
  SessionDevice() = default;

  // In this order: what is named later uses what is named before it.
  std::unique_ptr<ModuleDevice> module_;  // null on the host
  std::unique_ptr<PageSource> host_pages_;
  std::unique_ptr<DeviceBackend> host_backend_;
  DeviceBackend* backend_ = nullptr;
  std::unique_ptr<CachingAllocator> allocator_;
  uint64_t limit_bytes_ = 0;
  std::string description_;
};

}  // namespace gpupool::engine
