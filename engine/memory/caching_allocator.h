// Gives out a device's memory under a byte limit, remembers who holds every
// block, and keeps freed memory for the next request. The same code serves
// every kind of device; a PageSource says where memory comes from and a
// TimelineSource how far the device's streams are.
//
// Below it lies one growing range of addresses, mapped page by page, in which
// free blocks are found in constant time (block_heap.h). Memory that no block
// needs can be unmapped anywhere in the range, so that a request within the
// limit is not refused because of fragmentation: whole free chunks go back to
// the source before reserved bytes pass the limit, and only the free parts of
// chunks in use may carry reserved bytes above it.
//
// Invariants
//   1. Blocks tile every mapped run without gap or overlap.
//   2. Block sizes and addresses are multiples of kBlockUnitBytes.
//   3. Owners are charged what they ask for, rounded up to kAlignmentBytes:
//      what plans count. requested <= allocated <= limit.
//   4. A holder's bytes never pass the limit set for it.
//   5. Memory is given to a stream only when every earlier use of it has
//      ended, comes earlier in the same stream, or is waited for (wait()).
//
// Thread-safety: every function may be called from any thread. A request that
// waits for a stream does so without the lock.
// Ownership: an Allocation gives its block back when it is destroyed; the
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

// One block. Empty after a move.
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

  // Null when empty. Contents are undefined at first.
  std::byte* data() const {
    return block_ == nullptr ? nullptr
                             : reinterpret_cast<std::byte*>(block_->address);
  }
  // As requested.
  uint64_t bytes() const {
    return block_ == nullptr ? 0 : block_->requested_bytes;
  }
  // What the stream of the allocation must wait for, on the device, before
  // it uses the memory. Only where AllocateOptions accepted that.
  std::optional<Moment> wait() const;
  // Gives the block back. All uses have ended.
  void Reset() {
    if (block_ != nullptr) ResetAfter({});
  }
  // Gives the block back at once, although work that was put on streams uses
  // it up to these moments. The moment given for the stream of the allocation
  // also ends whatever that stream had to wait for.
  void ResetAfter(absl::Span<const Moment> uses);

 private:
  friend class CachingAllocator;
  Allocation(CachingAllocator* allocator, Block* block)
      : allocator_(allocator), block_(block) {}

  CachingAllocator* allocator_ = nullptr;
  // What is read of it here does not change while it is held.
  Block* block_ = nullptr;
};

struct AllocateOptions {
  // On which the memory is used first.
  StreamId stream = kDefaultStream;
  // Rather than map more memory, take what another stream is not past yet;
  // the caller lets its stream wait for Allocation::wait().
  bool accept_wait = false;
};

class CachingAllocator {
 public:
  // `device` names it in texts. The sources must outlive the allocator;
  // `timeline` may be null on a device without streams.
  CachingAllocator(std::string device, uint64_t limit_bytes, PageSource* source,
                   TimelineSource* timeline = nullptr);
  // All allocations must be gone, and streams past the uses that were named.
  ~CachingAllocator() = default;
  CachingAllocator(const CachingAllocator&) = delete;
  CachingAllocator& operator=(const CachingAllocator&) = delete;

  // `bytes` may be 0: an empty allocation that costs nothing.
  //   RESOURCE_EXHAUSTED  the limit, the holder's limit or the device; the
  //                       text says who holds what and what to do
  //   any other           a fault of the device
  absl::StatusOr<Allocation> Allocate(uint64_t bytes, const Owner& owner,
                                      const AllocateOptions& options = {});

  // Bounds the bytes of one holder from now on; 0 takes the bound away.
  //   FAILED_PRECONDITION  it already holds more
  absl::Status SetHolderLimit(const std::string& holder, uint64_t limit_bytes);
  // Bytes that a holder has now, rounded to the alignment.
  uint64_t HolderBytes(const std::string& holder) const;
  // The most that it had since it first held something or ResetPeak.
  uint64_t HolderPeakBytes(const std::string& holder) const;
  // Forgets the limit and the peak of a holder that has nothing.
  void ForgetHolder(const std::string& holder);

  // Lowers the limit to this share of the one that the allocator was made
  // with. What is held stays, but nothing is added above it.
  //   INVALID_ARGUMENT  not above 0 and at most 1
  absl::Status SetFraction(double fraction);
  // Gives whole chunks that nothing uses back to the source; returns their
  // bytes. Does not wait for streams.
  uint64_t EmptyCache();
  // Sets the peaks to the present values.
  void ResetPeak();

  // The n-th request from now on fails (1: the next one) as if there were no
  // memory; 0 takes that back. For tests of what happens then.
  void FailNthAllocation(uint64_t n);
  // Keeps the last `max_entries` events from now on; 0 switches it off.
  //   INVALID_ARGUMENT  more than ten million
  absl::Status RecordHistory(uint64_t max_entries);

  MemoryStatistics Statistics() const;
  MemorySnapshot Snapshot() const;
  std::string Summary() const;
  const std::string& device() const { return device_; }

 private:
  friend class Allocation;

  bool IsWithinLimit(uint64_t bytes) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Checks the holder's limit, too.
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
  // Takes a block back without an event. False when streams still use it.
  bool TakeBack(Block* block, absl::Span<const Moment> uses)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Takes a block back with events.
  void TakeBackRecorded(Block* block, absl::Span<const Moment> uses)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Charge(Block* block, uint64_t requested, OwnerAccount* account)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Discharge(const Block& block) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Frees what streams have passed, and counts it.
  void Settle() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Brings the figures of free and of mapped memory up to date.
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
  uint64_t until_failure_ ABSL_GUARDED_BY(mutex_) = 0;  // 0: none is planned
  uint64_t stream_waits_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t out_of_memory_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace gpupool::engine
