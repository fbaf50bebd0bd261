// The data path between the daemon and one worker: a ring of slots in shared
// memory (slot_layout.h). The daemon writes a request's tensors into a free
// slot, the worker computes in place, and the results appear in the same slot.
// No system call is made while the other side is awake.
//
// SlotRingClient is the daemon's end, for any thread. SlotRingServer
// (slot_ring_server.h) is the worker's end. The client owns memory, doorbells
// and a thread that runs the callbacks.
//
// Invariants
//  1. A slot is free, held by one Slot, or outstanding; never two of these.
//  2. Every submitted slot gets exactly one Done, whatever the worker does.
//  3. At most slot_count entries are in either queue, so pushes never fail.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "server/ipc/memory_region.h"
#include "server/ipc/slot_layout.h"
#include "server/ipc/slot_queue.h"
#include "server/ipc/unique_fd.h"

namespace gpupool::server {

class SlotRingClient;

// A slot that the holder may read and write. Movable. Gives the slot back when
// destroyed. Keeps the ring's memory alive.
class Slot {
 public:
  Slot(Slot&&) noexcept = default;
  Slot& operator=(Slot&& other) noexcept;
  ~Slot();

  // Returns a header in this process's memory. The worker can change only the
  // shared copy of it.
  SlotHeader& header();
  // Returns the payload: slot_bytes long, page aligned, shared with the worker.
  absl::Span<std::byte> payload();
  // Returns the bytes of output `i` < header().output_count.
  absl::Span<const std::byte> output(uint32_t i);

 private:
  friend class SlotRingClient;
  Slot(std::shared_ptr<SlotRingClient> ring, uint32_t index)
      : ring_(std::move(ring)), index_(index) {}

  std::shared_ptr<SlotRingClient> ring_;
  uint32_t index_ = 0;
};

struct SlotRingOptions {
  uint32_t slot_count = 64;
  uint64_t slot_bytes = uint64_t{4} << 20;  // pages are used when touched
};

class SlotRingClient : public std::enable_shared_from_this<SlotRingClient> {
 public:
  // Receives OK, with the outputs in the slot, or an error: the worker's own,
  // Internal when its answer is corrupt, or FailAll's status. Runs on the
  // ring's completion thread or FailAll's caller. Must be short and must not
  // call FailAll. Destroying the slot frees it.
  using Done = std::function<void(absl::Status, Slot)>;

  // Makes the ring and starts the completion thread. FailAll ends that thread
  // and must be called before the last owner lets go (the pool does).
  // InvalidArgument for sizes out of range, ResourceExhausted when the system
  // refuses.
  static absl::StatusOr<std::shared_ptr<SlotRingClient>> Create(
      const SlotRingOptions& options);
  ~SlotRingClient();

  // Returns a free slot, or nothing when all are in use or the ring has failed.
  std::optional<Slot> Acquire();
  // Waits for a free slot. Returns nothing at `deadline` or when the ring
  // fails.
  std::optional<Slot> AcquireUntil(absl::Time deadline);
  // Calls `callback` once a slot is free or the ring has failed: at once on
  // this thread, or later on the thread that frees a slot.
  void NotifyWhenFree(std::function<void()> callback);

  // Hands the slot to the worker. Calls `done` on this thread when
  // CheckSlotHeader refuses the header or the ring has failed.
  void Submit(Slot slot, Done done);

  // Answers every slot that the worker has not answered, and every later
  // Submit, with `status`. Acquire then returns nothing. Idempotent. Must not
  // be called from a Done.
  void FailAll(const absl::Status& status);
  bool failed() const;

  // Returns the memfd, the eventfd that wakes the worker, and the eventfd that
  // wakes the daemon, in the order in which Hello sends them. The ring keeps
  // them.
  std::array<int, 3> descriptors() const;

  uint64_t slot_bytes() const { return geometry_.slot_bytes; }
  uint32_t slot_count() const { return geometry_.slot_count; }
  uint32_t slots_in_use() const;

 private:
  friend class Slot;
  struct Entry {
    SlotHeader header = {};
    Done done;  // set while outstanding
  };

  SlotRingClient(MemoryRegion region, const RingGeometry& geometry,
                 UniqueFd worker_bell, UniqueFd daemon_bell);
  void RunCompletions();
  void Complete(uint64_t queue_entry);
  absl::Status ReadAnswer(uint32_t index);
  void FailOutstanding(const absl::Status& status);
  void DeliverAnswered();
  void Free(uint32_t index);
  std::byte* SlotAddress(uint32_t index) const;

  const MemoryRegion region_;
  const RingGeometry geometry_;
  const UniqueFd worker_bell_;
  const UniqueFd daemon_bell_;
  SlotQueue completions_;  // used by the completion thread
  std::thread completion_thread_;
  std::atomic<bool> stop_{false};

  mutable absl::Mutex mutex_;
  SlotQueue submissions_ ABSL_GUARDED_BY(mutex_);
  std::vector<Entry> entries_;  // by slot; the holder's, or under mutex_
  std::vector<uint32_t> free_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::function<void()>> waiters_ ABSL_GUARDED_BY(mutex_);
  uint64_t next_sequence_ ABSL_GUARDED_BY(mutex_) = 1;
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace gpupool::server
