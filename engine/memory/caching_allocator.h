// Allocates a device's memory under a byte limit, records the owner of every
// block, and keeps freed memory for later requests. The same code serves every
// kind of device: a PageSource supplies memory, and a TimelineSource tells how
// far the device's streams are.
//
// Below it lies one growing range of addresses, mapped page by page, in which
// free blocks are found in constant time (block_heap.h). Free memory can be
// unmapped anywhere in the range, so a request within the limit is not refused
// because of fragmentation. Before reserved bytes pass the limit, whole free
// chunks go back to the source. Only the free parts of chunks in use may take
// reserved bytes above the limit.
//
// Invariants
//   1. Blocks tile every mapped run without gap or overlap.
//   2. Block sizes and addresses are multiples of kBlockUnitBytes.
//   3. Owners are charged what they ask for, rounded up to kAlignmentBytes, as
//      plans count. requested <= allocated <= limit.
//   4. A holder's bytes never pass the limit set for it.
//   5. Memory is given to a stream only when every earlier use of it has
//      ended, comes earlier in the same stream, or is waited for (wait()).
//
// Thread-safety: every function may be called from any thread. A request that
// waits for a stream does not hold the lock meanwhile.
// Ownership: an Allocation gives its block back when it is destroyed. The
// allocator must outlive its allocations.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/memory/block_heap.h"
#include "engine/memory/fast_mutex.h"
#include "engine/memory/owner_ledger.h"
#include "engine/memory/page_source.h"
#include "engine/memory/statistics.h"
#include "engine/memory/timeline.h"

namespace gpupool::engine {

class CachingAllocator;

// A held block, movable. Empty after a move.
class Allocation {
 public:
  Allocation() = default;
  Allocation(Allocation&& other) noexcept
      : allocator_(other.allocator_), block_(std::exchange(other.block_, {})) {}
  Allocation& operator=(Allocation&& other) noexcept {
    if (this == &other) return *this;
    Reset();
    allocator_ = other.allocator_;
    block_ = std::exchange(other.block_, nullptr);
    return *this;
  }
  ~Allocation() { Reset(); }

  // Returns null when empty. The contents are undefined at first.
  std::byte* data() const {
    return block_ == nullptr ? nullptr
                             : reinterpret_cast<std::byte*>(block_->address);
  }
  // Returns the bytes that were requested.
  uint64_t bytes() const {
    return block_ == nullptr ? 0 : block_->requested_bytes;
  }
  // Returns the moment that the stream of the allocation must wait for, on the
  // device, before it uses the memory. Set only if AllocateOptions accepted a
  // wait.
  std::optional<Moment> wait() const;
  // Gives the block back. All uses must have ended.
  void Reset() {
    if (block_ != nullptr) ResetAfter({});
  }
  // Gives the block back at once, although queued work uses it up to these
  // moments. The moment given for the stream of the allocation also covers
  // whatever that stream had to wait for.
  void ResetAfter(absl::Span<const Moment> uses);

 private:
  friend class CachingAllocator;
  Allocation(CachingAllocator* allocator, Block* block)
      : allocator_(allocator), block_(block) {}

  CachingAllocator* allocator_ = nullptr;
  // The block. The fields that are read here do not change while it is held.
  Block* block_ = nullptr;
};

struct AllocateOptions {
  // The stream that uses the memory first.
  StreamId stream = kDefaultStream;
  // Takes memory that another stream still uses rather than mapping more. The
  // caller then makes its stream wait for Allocation::wait().
  bool accept_wait = false;
};

class CachingAllocator {
 public:
  // Uses `device` as the name in texts. The sources must outlive the allocator;
  // `timeline` may be null on a device without streams.
  CachingAllocator(std::string device, uint64_t limit_bytes, PageSource* source,
                   TimelineSource* timeline = nullptr);
  // Requires that all allocations are gone and that streams have passed all
  // uses that were named.
  ~CachingAllocator() = default;
  CachingAllocator(const CachingAllocator&) = delete;
  CachingAllocator& operator=(const CachingAllocator&) = delete;

  // Allocates `bytes`; 0 gives an empty allocation that costs nothing.
  //   RESOURCE_EXHAUSTED  the limit, the holder's limit or the device; the
  //                       text says who holds how much and what to do
  //   any other           a fault of the device
  absl::StatusOr<Allocation> Allocate(uint64_t bytes, const Owner& owner,
                                      const AllocateOptions& options = {});

  // Limits the bytes of one holder; 0 removes the limit.
  //   FAILED_PRECONDITION  it already holds more
  absl::Status SetHolderLimit(const std::string& holder, uint64_t limit_bytes);
  // Returns the bytes that a holder has now, rounded to the alignment.
  uint64_t HolderBytes(const std::string& holder) const;
  // Returns the holder's peak since its first allocation or ResetPeak.
  uint64_t HolderPeakBytes(const std::string& holder) const;
  // Forgets the limit and the peak of a holder. It must hold nothing.
  void ForgetHolder(const std::string& holder);

  // Sets the limit to this share of the one given to the constructor. Held
  // memory stays, but nothing is added above the new limit.
  //   INVALID_ARGUMENT  not above 0 and at most 1
  absl::Status SetFraction(double fraction);
  // Unmaps whole chunks that nothing uses and returns their bytes. Does not
  // wait for streams.
  uint64_t EmptyCache();
  // Sets the peaks to the current values.
  void ResetPeak();

  // Makes the n-th request from now on fail (1: the next one) as if there were
  // no memory; 0 cancels that. For tests of error paths.
  void FailNthAllocation(uint64_t n);
  // Starts to keep the last `max_entries` events; 0 switches this off.
  absl::Status RecordHistory(uint64_t max_entries);

  MemoryStatistics Statistics() const;
  MemorySnapshot Snapshot() const;
  std::string Summary() const;
  const std::string& device() const { return device_; }

 private:
  friend class Allocation;

  bool IsWithinLimit(uint64_t bytes) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Checks the holder's limit as well.
  bool IsWithinLimits(uint64_t bytes, const OwnerAccount& account) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status LimitError(uint64_t bytes, const OwnerAccount& account)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<Block*> Obtain(uint64_t bytes, const Owner& owner,
                                const AllocateOptions& options)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status WaitForRoom(uint64_t bytes, const absl::Status& grown)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Free(Block* block, absl::Span<const Moment> uses);
  // Takes a block back without recording events. Returns false when streams
  // still use it.
  bool TakeBack(Block* block, absl::Span<const Moment> uses)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Takes a block back and records events.
  void TakeBackRecorded(Block* block, absl::Span<const Moment> uses)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Charge(Block* block, uint64_t requested, OwnerAccount* account)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Discharge(const Block& block) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Frees the blocks that streams have passed, and counts them.
  void Settle() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Update the figures of free and of mapped memory.
  void CountFree() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CountMapped() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status OutOfMemory(uint64_t bytes, const Owner& owner,
                           const std::string& reason)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  uint64_t MostMappedBytes() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  MemoryStatistics StatisticsLocked() const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string device_;
  const uint64_t full_limit_bytes_;
  const uint64_t granularity_;
  TimelineSource* const timeline_;
  mutable FastMutex mutex_;
  History history_ ABSL_GUARDED_BY(mutex_);
  BlockHeap heap_ ABSL_GUARDED_BY(mutex_);
  OwnerLedger ledger_ ABSL_GUARDED_BY(mutex_);
  PooledFigures figures_ ABSL_GUARDED_BY(mutex_);
  uint64_t limit_bytes_ ABSL_GUARDED_BY(mutex_);
  // 0: none is planned to fail
  uint64_t until_failure_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t stream_waits_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t out_of_memory_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace gpupool::engine
