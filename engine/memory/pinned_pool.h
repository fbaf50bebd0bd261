// A pool of host memory that a device reads and writes directly. Freed blocks
// are kept, because pinning pages costs much more than using them. Sizes are
// powers of two with one free list each, and blocks are never split. The cap
// bounds all pinned memory, cached or not, because the rest of the machine
// cannot use pinned pages.
//
// Thread-safety: every function may be called from any thread. The source is
// called without the pool's lock, so no thread waits for another's pages.
// Ownership: a PinnedBlock gives its memory back when it is destroyed. The pool
// must outlive its blocks.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "engine/memory/fast_mutex.h"
#include "engine/memory/memory_figures.h"
#include "engine/memory/timeline.h"

namespace gpupool::engine {

// The source of pinned memory: cudaHostAlloc and cudaFreeHost, or pages with
// cudaHostRegister.
//
// Thread-safety: both functions may be called from any thread.
class PinnedSource {
 public:
  virtual ~PinnedSource() = default;

  // Returns the address of pinned memory, a multiple of 4 KiB. `bytes` is a
  // power of two, at least kSmallestPinnedBytes. RESOURCE_EXHAUSTED when there
  // is no more.
  virtual absl::StatusOr<void*> Allocate(uint64_t bytes) = 0;
  virtual void Free(void* data, uint64_t bytes) = 0;
};

// A source of plain pages, for devices that are the host.
class HostPinnedSource : public PinnedSource {
 public:
  absl::StatusOr<void*> Allocate(uint64_t bytes) override;
  void Free(void* data, uint64_t bytes) override;
};

inline constexpr uint64_t kSmallestPinnedBytes = 4096;

class PinnedPool;

// A held block, movable. Empty after a move.
class PinnedBlock {
 public:
  PinnedBlock() = default;
  PinnedBlock(PinnedBlock&& other) noexcept { *this = std::move(other); }
  PinnedBlock& operator=(PinnedBlock&& other) noexcept;
  ~PinnedBlock() { Reset(); }

  // Returns null when empty. The contents are undefined at first.
  std::byte* data() const { return data_; }
  // Returns the bytes that were requested.
  uint64_t bytes() const { return bytes_; }
  // Gives the memory back. All copies from and to it must have ended.
  void Reset() { ResetAfter({}); }
  // Gives the memory back while queued copies use it up to these moments.
  void ResetAfter(absl::Span<const Moment> uses);

 private:
  friend class PinnedPool;
  PinnedBlock(PinnedPool* pool, std::byte* data, uint64_t bytes)
      : pool_(pool), data_(data), bytes_(bytes) {}

  PinnedPool* pool_ = nullptr;
  std::byte* data_ = nullptr;
  uint64_t bytes_ = 0;
};

// Statistics with the names of PyTorch's statistics of host memory.
struct PinnedStatistics {
  uint64_t cap_bytes = 0;
  MemoryFigure allocation;  // blocks that are held
  MemoryFigure segment;     // blocks that are pinned
  MemoryFigure requested_bytes;
  MemoryFigure allocated_bytes;  // held, rounded to powers of two
  MemoryFigure reserved_bytes;   // pinned
  absl::Duration allocate_time;  // in the source, all threads
  absl::Duration free_time;
  uint64_t refused = 0;  // requests without room
};

class PinnedPool {
 public:
  // Makes a pool. With a null `timeline` every use has ended when a block comes
  // back.
  PinnedPool(uint64_t cap_bytes, PinnedSource* source,
             const TimelineSource* timeline = nullptr);
  // Requires that all blocks are back and that streams have passed all uses
  // that were named.
  ~PinnedPool();
  PinnedPool(const PinnedPool&) = delete;
  PinnedPool& operator=(const PinnedPool&) = delete;

  // Allocates `bytes`; 0 gives an empty block that costs nothing. Unpins unused
  // blocks of other sizes when the cap requires it.
  //   RESOURCE_EXHAUSTED  the cap or the source; the text says what is held
  absl::StatusOr<PinnedBlock> Allocate(uint64_t bytes);
  // Unpins unused blocks and returns their bytes. Does not wait for streams.
  uint64_t EmptyCache();
  PinnedStatistics Statistics() const;

 private:
  friend class PinnedBlock;
  static constexpr size_t kClasses = 64;
  struct Leaving {
    std::byte* data = nullptr;
    std::vector<Moment> uses;
  };
  // The blocks of 2^index bytes.
  struct SizeClass {
    std::vector<std::byte*> idle;
    std::vector<Leaving> leaving;  // streams still use them
  };
  using Blocks = std::vector<std::pair<std::byte*, uint64_t>>;

  static uint64_t BytesOf(const Blocks& blocks);
  void Free(std::byte* data, uint64_t bytes, absl::Span<const Moment> uses);
  bool HasPassed(absl::Span<const Moment> uses) const;
  void Settle(SizeClass& blocks) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns unused blocks of at least `bytes` in total, or all if there are
  // fewer, largest first. They stay counted.
  Blocks TakeIdle(uint64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Hold(uint64_t requested, uint64_t bytes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Refuse(uint64_t bytes, const std::string& reason)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<std::byte*> Pin(uint64_t bytes);
  // Pins memory for a block that is already counted as held.
  absl::StatusOr<PinnedBlock> PinFor(uint64_t bytes, uint64_t rounded);
  // Unpins the blocks, then takes `counted_bytes` off the count.
  void Unpin(const Blocks& blocks, uint64_t counted_bytes);

  PinnedSource* const source_;
  const TimelineSource* const timeline_;
  mutable FastMutex mutex_;
  std::array<SizeClass, kClasses> classes_ ABSL_GUARDED_BY(mutex_);
  PinnedStatistics totals_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace gpupool::engine
