// The source of an allocator's memory, page by page: ranges of addresses are
// reserved, chunks of physical memory are created, and a chunk is mapped at an
// address of a range. The interface follows CUDA's virtual memory management
// call by call:
//
//   ReserveRange  cuMemAddressReserve        FreeRange     cuMemAddressFree
//   CreateChunk   cuMemCreate                ReleaseChunk  cuMemRelease
//   Map           cuMemMap + cuMemSetAccess  Unmap         cuMemUnmap
//
// Rules
//   1. Addresses and byte counts are multiples of granularity().
//   2. A chunk is mapped as a whole, at one address at a time: a physical
//      handle cannot be split, and mapping costs per handle, not per byte.
//      Hence several chunk sizes.
//   3. Only whole chunks are unmapped. Only unmapped chunks are released. A
//      range is freed when nothing is mapped in it.
//   4. Memory is used between Map and Unmap only. The caller of Unmap knows
//      that no work on the device uses it any more.
//   5. A call that fails changes nothing.
//
// Errors: RESOURCE_EXHAUSTED when memory or addresses run out; the allocator
// answers by giving something back. Any other error is a fault of the device
// and is passed on to the caller.
//
// Thread-safety: the allocator calls a source under its own lock.
// Ownership: whoever reserves or creates gives back.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace gpupool::engine {

// A CUmemGenericAllocationHandle, or its substitute on other devices.
using ChunkHandle = uint64_t;

// Bytes at an address.
struct PageRange {
  uint64_t address = 0;
  uint64_t bytes = 0;

  uint64_t end() const { return address + bytes; }
};

class PageSource {
 public:
  virtual ~PageSource() = default;

  // Returns the unit of addresses and sizes, a power of two; 2 MiB on CUDA
  // devices.
  virtual uint64_t granularity() const = 0;
  // Returns the chunk sizes, largest first. Each is a multiple of the next, and
  // the last is the granularity.
  virtual absl::Span<const uint64_t> chunk_sizes() const = 0;

  // Reserves addresses without memory and returns the first.
  virtual absl::StatusOr<uint64_t> ReserveRange(uint64_t bytes) = 0;
  virtual absl::Status FreeRange(const PageRange& range) = 0;

  // Creates memory without an address; `bytes` is one of chunk_sizes().
  virtual absl::StatusOr<ChunkHandle> CreateChunk(uint64_t bytes) = 0;
  virtual absl::Status ReleaseChunk(ChunkHandle chunk) = 0;

  // Maps the whole chunk at `at`, readable and writable by the device.
  virtual absl::Status Map(const PageRange& at, ChunkHandle chunk) = 0;
  // Unmaps the chunk that Map put at exactly `at`.
  virtual absl::Status Unmap(const PageRange& at) = 0;
};

}  // namespace gpupool::engine
