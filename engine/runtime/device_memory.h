// How the engine reaches tensor memory. Above kernels nobody dereferences an
// address of a device: bytes go there and come back through a Transfer. Where
// the host's memory is the device's (CPU devices), they need not be copied at
// all: see host_visible.
//
// Thread-safety: as the back end that it belongs to, one compute thread.
// Ownership: addresses stay the allocator's; staging buffers and registrations
// must go before the transfer that made them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace gpupool::engine {

// Host memory that a device copies from and to at full speed (pinned, on a
// GPU). Goes back with the object.
class StagingBuffer {
 public:
  virtual ~StagingBuffer() = default;
  // Aligned to kAlignmentBytes.
  virtual std::byte* data() const = 0;
};

// Memory of somebody else's that a device was told of. The device forgets it
// with the object, which goes when no copy is queued any more and before the
// memory does.
class HostRegistration {
 public:
  virtual ~HostRegistration() = default;
};

class Transfer {
 public:
  virtual ~Transfer() = default;

  // Whether the host may read and write the device's memory by its addresses.
  virtual bool host_visible() const = 0;

  // The next four are queued behind all work that was queued before, kernels
  // included; the host's bytes must stay as they are until Synchronize.
  virtual absl::Status CopyToDevice(std::byte* to,
                                    absl::Span<const std::byte> from) = 0;
  virtual absl::Status CopyFromDevice(absl::Span<std::byte> to,
                                      const std::byte* from) = 0;
  // Both are addresses of the device; the ranges do not overlap.
  virtual absl::Status CopyOnDevice(std::byte* to, const std::byte* from,
                                    uint64_t bytes) = 0;
  // Sets every byte to 0.
  virtual absl::Status Clear(std::byte* to, uint64_t bytes) = 0;
  // Waits until everything that was queued is done. The device's fault, if
  // there was one.
  virtual absl::Status Synchronize() = 0;

  // A transfer of the same device whose copies go on beside the work behind
  // which this one queues: nothing is ordered between the two but by Await.
  // Null where there is none. Lives as long as this one.
  virtual Transfer* beside() { return nullptr; }
  // What is queued here from now on waits, on the device, for what `other` has
  // queued so far, which is this one's beside() or has this one as such.
  virtual absl::Status Await(Transfer& /*other*/) { return absl::OkStatus(); }

  // `bytes` may be 0. RESOURCE_EXHAUSTED when the host has no more of it.
  virtual absl::StatusOr<std::unique_ptr<StagingBuffer>> AllocateStaging(
      uint64_t bytes) = 0;

  // Lets the device copy from and to `host` at full speed, as if it were
  // staging: on a GPU the pages are pinned where they are. Null where there is
  // nothing to do.
  //   INVALID_ARGUMENT  it is empty or overlaps what is registered already
  //   other codes       the system refuses; nothing has changed
  virtual absl::StatusOr<std::unique_ptr<HostRegistration>> Register(
      absl::Span<std::byte> /*host*/) {
    return nullptr;
  }
  // Whether all of these bytes, at least one, lie in one registration of the
  // device's.
  virtual bool IsRegistered(absl::Span<const std::byte> /*host*/) const {
    return false;
  }
};

// The memory of CPU devices, which is the host's. Safe from any thread.
Transfer& HostMemory();

}  // namespace gpupool::engine
