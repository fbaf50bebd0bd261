// Gives out a device's memory under a byte limit, remembers who holds every
// block, and keeps freed memory for the next request.
//
// The limit bounds what owners hold (allocated bytes). A request within it
// never fails because of fragmentation: cached segments are given back to
// the source before reserved bytes pass the limit, and only the free parts
// of segments in use may carry reserved bytes above it.
//
// Invariants
//   1. Blocks tile their segment without gap or overlap.
//   2. No two neighbouring blocks are both free.
//   3. Block sizes are multiples of kAlignmentBytes, and so are addresses.
//   4. allocated <= limit, allocated <= reserved, requested <= allocated.
//   5. A holder's bytes never pass the limit set for it.
//
// Thread-safety: every function may be called from any thread.
// Ownership: an Allocation gives its block back when it is destroyed; the
// allocator must outlive its allocations.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "engine/memory/segment_source.h"
#include "engine/memory/statistics.h"

namespace gpupool::engine {

class CachingAllocator;

// One block. Empty after a move.
class Allocation {
 public:
  Allocation() = default;
  Allocation(Allocation&& other) noexcept { *this = std::move(other); }
  Allocation& operator=(Allocation&& other) noexcept;
  ~Allocation() { Reset(); }

  // Null when empty. Contents are undefined at first.
  std::byte* data() const { return data_; }
  // As requested.
  uint64_t bytes() const { return bytes_; }
  // Gives the block back.
  void Reset();

 private:
  friend class CachingAllocator;
  Allocation(CachingAllocator* allocator, std::byte* data, uint64_t bytes)
      : allocator_(allocator), data_(data), bytes_(bytes) {}

  CachingAllocator* allocator_ = nullptr;
  std::byte* data_ = nullptr;
  uint64_t bytes_ = 0;
};

class CachingAllocator {
 public:
  // `device` names it in texts. `source` must outlive the allocator.
  CachingAllocator(std::string device, uint64_t limit_bytes,
                   SegmentSource* source);
  // All allocations must be gone.
  ~CachingAllocator();
  CachingAllocator(const CachingAllocator&) = delete;
  CachingAllocator& operator=(const CachingAllocator&) = delete;

  // `bytes` may be 0: an empty allocation that costs nothing.
  //   RESOURCE_EXHAUSTED  the limit, the holder's limit or the source; the
  //                       text says who holds what and what to do
  absl::StatusOr<Allocation> Allocate(uint64_t bytes, const Owner& owner);

  // Bounds the bytes of one holder from now on; 0 takes the bound away.
  //   FAILED_PRECONDITION  it already holds more
  absl::Status SetHolderLimit(const std::string& holder, uint64_t limit_bytes);
  // Bytes that a holder has now, rounded to the alignment.
  uint64_t HolderBytes(const std::string& holder) const;
  // The most that it had since it first held something or ResetPeak.
  uint64_t HolderPeakBytes(const std::string& holder) const;
  // Forgets the limit and the peak of a holder that has nothing.
  void ForgetHolder(const std::string& holder);

  // Gives free segments back to the source; returns their bytes.
  uint64_t EmptyCache();
  // Sets the peaks to the present values.
  void ResetPeak();

  MemoryStatistics Statistics() const;
  MemorySnapshot Snapshot() const;
  std::string Summary() const;
  const std::string& device() const { return device_; }

 private:
  struct Segment;
  struct Block {
    Segment* segment = nullptr;
    uint64_t bytes = 0;
    uint64_t requested_bytes = 0;
    bool free = true;
    Owner owner;
  };
  // Blocks by address; a segment's blocks are a run of consecutive keys.
  using Blocks = std::map<uint64_t, Block>;
  struct Segment {
    uint64_t address = 0;
    uint64_t bytes = 0;
    uint64_t used_blocks = 0;
  };
  struct Holder {
    uint64_t bytes = 0;
    uint64_t peak_bytes = 0;
    uint64_t limit_bytes = 0;
    std::map<std::string, uint64_t> uses;
  };
  friend class Allocation;

  absl::Status CheckLimits(uint64_t rounded, const Owner& owner)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<Blocks::iterator> FindOrGrow(uint64_t rounded,
                                              const Owner& owner)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Blocks::iterator FindFree(uint64_t rounded)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  uint64_t SegmentBytesFor(uint64_t rounded) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<Blocks::iterator> AddSegment(uint64_t bytes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Split(Blocks::iterator block, uint64_t rounded)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Take(Blocks::iterator block, uint64_t requested, const Owner& owner)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Free(std::byte* data);
  void MergeWithNeighbours(Blocks::iterator block)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  uint64_t FreeUnusedSegments() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status OutOfMemory(uint64_t rounded, const Owner& owner,
                           const std::string& reason)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  MemoryStatistics StatisticsLocked() const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string device_;
  const uint64_t limit_bytes_;
  SegmentSource* const source_;
  mutable absl::Mutex mutex_;
  Blocks blocks_ ABSL_GUARDED_BY(mutex_);
  std::map<uint64_t, std::unique_ptr<Segment>> segments_
      ABSL_GUARDED_BY(mutex_);
  // (bytes, address) of every free block: lower bound is best fit.
  std::set<std::pair<uint64_t, uint64_t>> free_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, Holder> holders_ ABSL_GUARDED_BY(mutex_);
  MemoryStatistics totals_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace gpupool::engine
