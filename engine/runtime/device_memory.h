// Access to tensor memory. Only kernels dereference addresses of a device; all
// other code copies bytes through a Transfer. On CPU devices the host's memory
// is the device's, and nothing needs to be copied: see host_visible.
//
// Thread-safety: that of the back end it belongs to, one compute thread.
// Ownership: the allocator owns the addresses. Staging buffers and
// registrations must be destroyed before the transfer that made them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace gpupool::engine {

// Host memory that a device copies from and to at full speed (pinned, on a
// GPU). Released with the object.
class StagingBuffer {
 public:
  virtual ~StagingBuffer() = default;
  // Returns the address, aligned to kAlignmentBytes.
  virtual std::byte* data() const = 0;
};

// Memory of another owner that was registered with a device. It is unregistered
// with the object. Destroy the object when no copy is queued any more, and
// before the memory is freed.
class HostRegistration {
 public:
  virtual ~HostRegistration() = default;
};

class Transfer {
 public:
  virtual ~Transfer() = default;

  // Returns whether the host may use the device's addresses.
  virtual bool host_visible() const = 0;

  // The next four functions queue behind all earlier work, kernels included.
  // The host's bytes must not change until Synchronize.
  virtual absl::Status CopyToDevice(std::byte* to,
                                    absl::Span<const std::byte> from) = 0;
  virtual absl::Status CopyFromDevice(absl::Span<std::byte> to,
                                      const std::byte* from) = 0;
  // Copies between two addresses of the device; the ranges must not overlap.
  virtual absl::Status CopyOnDevice(std::byte* to, const std::byte* from,
                                    uint64_t bytes) = 0;
  // Sets every byte to 0.
  virtual absl::Status Clear(std::byte* to, uint64_t bytes) = 0;
  // Waits until all queued work is done. Returns the device's error, if any.
  virtual absl::Status Synchronize() = 0;

  // Returns a transfer of the same device whose copies run in parallel to the
  // work of this one: only Await orders the two. Null if there is none. It
  // lives as long as this one.
  virtual Transfer* beside() { return nullptr; }
  // Makes later work here wait, on the device, for the work that `other` has
  // queued so far. `other` is this one's beside(), or the reverse.
  virtual absl::Status Await(Transfer& /*other*/) { return absl::OkStatus(); }

  // Allocates staging memory; `bytes` may be 0. RESOURCE_EXHAUSTED when the
  // host has no more of it.
  virtual absl::StatusOr<std::unique_ptr<StagingBuffer>> AllocateStaging(
      uint64_t bytes) = 0;

  // Registers `host`, so that the device copies from and to it at full speed as
  // with staging: on a GPU the pages are pinned in place. Returns null when
  // there is nothing to do.
  //   INVALID_ARGUMENT  it is empty or overlaps a registered range
  //   other codes       the system refuses; nothing has changed
  virtual absl::StatusOr<std::unique_ptr<HostRegistration>> Register(
      absl::Span<std::byte> /*host*/) {
    return nullptr;
  }
  // Returns whether all of these bytes, at least one, are inside a single
  // registration of the device.
  virtual bool IsRegistered(absl::Span<const std::byte> /*host*/) const {
    return false;
  }
};

// Returns the memory of CPU devices, which is the host's. Safe from any thread.
Transfer& HostMemory();

}  // namespace gpupool::engine
