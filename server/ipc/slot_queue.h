// A single-producer single-consumer queue of 64-bit entries in shared memory,
// with an eventfd that is written only when the consumer sleeps.
//
//   queue = head:32 tail:32 sleeping:32 (each on its own cache line)
//           entry:64{capacity}
//
// head and tail count entries for ever and wrap at 2^32; tail - head entries
// wait. The consumer owns head and sleeping, the producer owns tail. The other
// side may write anything anywhere, so a count above the capacity is reported
// and never followed.
//
// A SlotQueue is a view; it owns neither the memory nor the eventfd. One
// thread at a time per side.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace gpupool::server {

struct SlotQueueHeader {
  alignas(64) std::atomic<uint32_t> head;
  alignas(64) std::atomic<uint32_t> tail;
  alignas(64) std::atomic<uint32_t> sleeping;
};
static_assert(std::atomic<uint32_t>::is_always_lock_free);
static_assert(std::atomic<uint64_t>::is_always_lock_free);

class SlotQueue {
 public:
  enum class Ready { kEmpty, kEntry, kCorrupt };

  SlotQueue(std::byte* memory, uint32_t capacity, int bell_fd);

  // Returns the size of a queue of `capacity`, a power of two.
  static constexpr uint64_t BytesFor(uint32_t capacity) {
    return sizeof(SlotQueueHeader) + uint64_t{8} * capacity;
  }

  // Adds an entry and rings the bell if the consumer sleeps. For the producer,
  // which must keep the number of waiting entries within the capacity.
  void Push(uint64_t entry);

  // Returns the state of the queue. For the consumer.
  Ready Look() const;
  // Removes and returns the next entry. Look() must have returned kEntry.
  uint64_t Pop();
  // Returns when Look() is not kEmpty, the bell or `wake_fd` (an eventfd, or
  // -1) was written, or `timeout` has passed. Drains both eventfds. Spins for a
  // moment before it sleeps if that has paid off lately, since waking a thread
  // costs more than such a moment.
  void Wait(int wake_fd, absl::Duration timeout);

 private:
  bool Spin();
  void Sleep(int wake_fd, absl::Duration timeout);

  SlotQueueHeader* header_;
  std::atomic<uint64_t>* entries_;
  uint32_t mask_;
  int bell_fd_;
  uint32_t head_ = 0;  // private copies: the peer may overwrite the shared ones
  uint32_t tail_ = 0;
  uint32_t spin_pause_ = 0;  // doubles with every useless spin
  uint32_t waits_until_spin_ = 0;
};

}  // namespace gpupool::server
