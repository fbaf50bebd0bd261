// The queues of a pool. Each has an order of its own, in which its jobs stand;
// between queues rank decides. A queue may be kept to some devices, and to a
// number of them.
//
// Thread-safety: a value; as State.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/strings/string_view.h"
#include "scheduler/state/order_policy.h"
#include "scheduler/state/types.h"

namespace gpupool::scheduler {

// `default` among them.
inline constexpr size_t kMostQueues = 32;

class Queues {
 public:
  struct Entry {
    Queue queue;
    uint32_t level = 0;         // ranks above its own
    std::vector<bool> may_use;  // by device; empty: all
    // One of those that it may use is no CPU device.
    bool has_accelerators = false;
    uint32_t held_devices = 0;  // by its jobs
    uint64_t waiting_jobs = 0;  // QUEUED
    uint64_t running_jobs = 0;  // live
    bool MayUse(DeviceId device) const {
      return may_use.empty() || may_use[device.value()];
    }
  };

  Queues() : Queues(QueuePolicy()) {}
  // The policy's, and `default` where it has none. At most kMostQueues, of
  // distinct names.
  explicit Queues(const QueuePolicy& policy);

  // In the order of their ids.
  void AddDevice(absl::string_view name, absl::string_view kind);

  // One of the devices is no CPU device.
  bool has_accelerators() const { return has_accelerators_; }

  // Highest rank first, then as they were given. Numbers count from 0.
  size_t size() const { return entries_.size(); }
  const Entry& at(uint32_t number) const { return entries_[number]; }
  bool Has(absl::string_view name) const;
  // That of `default` when the name is empty or unknown.
  uint32_t NumberOf(absl::string_view name) const;
  // The order in which they are served now: of one rank first those whose jobs
  // hold the fewest devices.
  absl::InlinedVector<uint32_t, 8> InOrder() const;
  // "default, short and night".
  std::string Names() const;

  // Jobs of `first` come before those of `second`, whatever they are.
  bool IsAbove(uint32_t first, uint32_t second) const {
    return entries_[first].level < entries_[second].level;
  }
  // Running jobs of `other` may have to give way to jobs of `number`.
  bool TakesFrom(uint32_t number, uint32_t other) const {
    const Queue& queue = entries_[number].queue;
    if (number == other) return queue.order_preempts();
    return queue.preempts && IsAbove(number, other);
  }
  // Some queue does take from some.
  bool preempt() const { return preempt_; }
  // Its jobs may not hold so many devices more.
  bool IsFull(uint32_t number, uint32_t more) const;

  // A rank of one of its jobs takes a device, or gives it back.
  void Take(uint32_t number) { ++entries_[number].held_devices; }
  void GiveBack(uint32_t number) { --entries_[number].held_devices; }
  void CountWaiting(uint32_t number, int change) {
    entries_[number].waiting_jobs += change;
  }
  void CountRunning(uint32_t number, int change) {
    entries_[number].running_jobs += change;
  }

 private:
  std::vector<Entry> entries_;
  uint32_t default_ = 0;
  bool preempt_ = false;
  bool has_accelerators_ = false;
};

// "cuda:0, cuda:1": what the queue may use, as it was given.
std::string DevicesText(const Queue& queue);

}  // namespace gpupool::scheduler
