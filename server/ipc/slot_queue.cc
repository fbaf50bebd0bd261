#include "server/ipc/slot_queue.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>

#include "absl/time/clock.h"

namespace gpupool::server {
namespace {

using SteadyClock = std::chrono::steady_clock;

// About the cost of putting a thread to sleep and waking it. Spinning for as
// long as that at most doubles the cost of a wait (Karlin et al., "Competitive
// randomized algorithms for nonuniform problems", 1990).
constexpr std::chrono::microseconds kSpinLimit{50};
// Maximum number of waits that sleep at once after useless spins: idle queues,
// and machines with more threads than cores, must not pay for spinning.
constexpr uint32_t kMaxSpinPause = 256;

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

void Ring(int bell_fd) {
  const uint64_t one = 1;
  // A full counter (EAGAIN) wakes the other side, too.
  while (::write(bell_fd, &one, sizeof(one)) < 0 && errno == EINTR) {
  }
}

void Drain(int fd) {
  uint64_t count = 0;
  while (::read(fd, &count, sizeof(count)) < 0 && errno == EINTR) {
  }
}

timespec PollTimeout(absl::Duration timeout) {
  return absl::ToTimespec(
      std::clamp(timeout, absl::ZeroDuration(), absl::Hours(1)));
}

}  // namespace

SlotQueue::SlotQueue(std::byte* memory, uint32_t capacity, int bell_fd)
    : header_(reinterpret_cast<SlotQueueHeader*>(memory)),
      entries_(reinterpret_cast<std::atomic<uint64_t>*>(
          memory + sizeof(SlotQueueHeader))),
      mask_(capacity - 1),
      bell_fd_(bell_fd) {}

void SlotQueue::Push(uint64_t entry) {
  entries_[tail_ & mask_].store(entry, std::memory_order_relaxed);
  ++tail_;
  // Sequentially consistent on both sides (Dekker's pattern): either the
  // consumer sees the new tail before it sleeps, or the producer sees that it
  // sleeps.
  header_->tail.store(tail_, std::memory_order_seq_cst);
  if (header_->sleeping.load(std::memory_order_seq_cst) != 0 &&
      header_->sleeping.exchange(0, std::memory_order_seq_cst) != 0) {
    Ring(bell_fd_);
  }
}

SlotQueue::Ready SlotQueue::Look() const {
  // Unsigned subtraction stays right when the counts wrap.
  const uint32_t waiting =
      header_->tail.load(std::memory_order_seq_cst) - head_;
  if (waiting == 0) return Ready::kEmpty;
  return waiting <= mask_ + 1 ? Ready::kEntry : Ready::kCorrupt;
}

uint64_t SlotQueue::Pop() {
  const uint64_t entry =
      entries_[head_ & mask_].load(std::memory_order_relaxed);
  ++head_;
  header_->head.store(head_, std::memory_order_release);
  return entry;
}

void SlotQueue::Wait(int wake_fd, absl::Duration timeout) {
  if (waits_until_spin_ > 0) {
    --waits_until_spin_;
  } else if (Spin()) {
    spin_pause_ = 0;
    return;
  } else {
    spin_pause_ = std::clamp(2 * spin_pause_, uint32_t{1}, kMaxSpinPause);
    waits_until_spin_ = spin_pause_;
  }
  Sleep(wake_fd, timeout);
}

// Returns true when something came within kSpinLimit. Looks at the clock only
// every 16 turns.
bool SlotQueue::Spin() {
  const SteadyClock::time_point end = SteadyClock::now() + kSpinLimit;
  do {
    for (int i = 0; i < 16; ++i) {
      if (Look() != Ready::kEmpty) return true;
      Pause();
    }
  } while (SteadyClock::now() < end);
  return false;
}

void SlotQueue::Sleep(int wake_fd, absl::Duration timeout) {
  header_->sleeping.store(1, std::memory_order_seq_cst);
  // Look again after `sleeping` is set, or an entry pushed in between would not
  // ring the bell.
  if (Look() == Ready::kEmpty) {
    std::array<pollfd, 2> fds = {{{bell_fd_, POLLIN, 0}, {wake_fd, POLLIN, 0}}};
    const timespec limit = PollTimeout(timeout);
    ::ppoll(fds.data(), wake_fd < 0 ? 1 : 2, &limit, nullptr);
    for (const pollfd& fd : fds) {
      if (fd.revents != 0) Drain(fd.fd);
    }
  }
  header_->sleeping.store(0, std::memory_order_relaxed);
}

}  // namespace gpupool::server
