// The worker's end of a slot ring (slot_ring.h). One thread. Owns the mapping
// and the doorbells that it was given. Trusts nothing that it reads: requests
// are copied and checked before they are passed on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "server/ipc/memory_region.h"
#include "server/ipc/slot_layout.h"
#include "server/ipc/slot_queue.h"
#include "server/ipc/unique_fd.h"

namespace gpupool::server {

// A checked request. `header` is a private copy.
struct SlotRequest {
  uint32_t index = 0;
  SlotHeader header = {};
  absl::Span<std::byte> payload;
  absl::Time seen;
};

class SlotRingServer {
 public:
  // Takes over the descriptors that Hello brought. InvalidArgument when the
  // region is not sealed, is too small for its header's claims, or has an
  // unknown magic number or version.
  static absl::StatusOr<std::unique_ptr<SlotRingServer>> Attach(
      UniqueFd region, UniqueFd worker_bell, UniqueFd daemon_bell);

  // Returns the next request, or nothing when none waits. Answers a corrupt
  // header with InvalidArgument and skips it.
  std::optional<SlotRequest> Next();
  bool HasRequests() const;

  // Answers the request. Writes code, error and times of `request.header`.
  void Complete(const SlotRequest& request, const absl::Status& status);

  // Returns when a request waits, `wake_fd` (an eventfd, drained here) was
  // written, or `timeout` has passed.
  void Wait(int wake_fd, absl::Duration timeout);

  // Returns the whole shared memory including the slots. Begins and ends on a
  // page.
  absl::Span<std::byte> memory() const {
    return {region_.data(), region_.bytes()};
  }
  // Returns how many requests were refused because of a corrupt header.
  uint64_t refused() const { return refused_; }
  // Returns true when the submission queue itself is corrupt. Drop the ring
  // then, since Wait would return at once for ever.
  bool broken() const { return broken_; }

 private:
  SlotRingServer(MemoryRegion region, const RingGeometry& geometry,
                 UniqueFd worker_bell, UniqueFd daemon_bell);
  std::byte* SlotAddress(uint32_t index) const;

  const MemoryRegion region_;
  const RingGeometry geometry_;
  const UniqueFd worker_bell_;
  const UniqueFd daemon_bell_;
  SlotQueue submissions_;
  SlotQueue completions_;
  uint64_t refused_ = 0;
  bool broken_ = false;
};

}  // namespace gpupool::server
