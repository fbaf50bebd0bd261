// Where an allocator's segments come from: the host's pages, a device's
// memory, or a source that fails on purpose in a test.
//
// Thread-safety: the allocator calls a source under its own lock.
// Ownership: whoever allocates a segment frees it, with the same byte count.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"

namespace gpupool::engine {

class SegmentSource {
 public:
  virtual ~SegmentSource() = default;

  // `bytes` > 0, a multiple of kAlignmentBytes. The address is aligned to
  // kAlignmentBytes at least. RESOURCE_EXHAUSTED when there is no more.
  virtual absl::StatusOr<void*> Allocate(uint64_t bytes) = 0;
  virtual void Free(void* address, uint64_t bytes) = 0;
};

// Anonymous, zero-filled pages of the host.
class HostSegmentSource : public SegmentSource {
 public:
  absl::StatusOr<void*> Allocate(uint64_t bytes) override;
  void Free(void* address, uint64_t bytes) override;
};

}  // namespace gpupool::engine
