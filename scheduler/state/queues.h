// The queues of a pool. Each orders its own jobs; rank decides between queues.
// A queue may be limited to some devices, and to a number of them.
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

// Maximum number of queues, including `default`.
inline constexpr size_t kMostQueues = 32;

class Queues {
 public:
  struct Entry {
    Queue queue;
    uint32_t level = 0;         // number of higher ranks
    std::vector<bool> may_use;  // by device; empty: all
    // Whether one of the devices that it may use is not a CPU device.
    bool has_accelerators = false;
    uint32_t held_devices = 0;  // devices that its jobs hold
    uint64_t waiting_jobs = 0;  // QUEUED
    uint64_t running_jobs = 0;  // live
    bool MayUse(DeviceId device) const {
      return may_use.empty() || may_use[device.value()];
    }
  };

  Queues() : Queues(QueuePolicy()) {}
  // Takes the policy's queues and adds `default` if it is missing. The policy
  // must have at most kMostQueues, of distinct names.
  explicit Queues(const QueuePolicy& policy);

  // Adds a device; devices come in the order of their ids.
  void AddDevice(absl::string_view name, absl::string_view kind);

  // Returns whether one of the devices is not a CPU device.
  bool has_accelerators() const { return has_accelerators_; }

  // Queues by falling rank, then as they were given. Numbers count from 0.
  size_t size() const { return entries_.size(); }
  const Entry& at(uint32_t number) const { return entries_[number]; }
  bool Has(absl::string_view name) const;
  // Returns the number of `default` for an empty or unknown name.
  uint32_t NumberOf(absl::string_view name) const;
  // Returns the order in which queues are served now: by rank, then by fewest
  // held devices.
  absl::InlinedVector<uint32_t, 8> InOrder() const;
  // Returns "default, short and night".
  std::string Names() const;

  // Returns whether all jobs of `first` come before those of `second`.
  bool IsAbove(uint32_t first, uint32_t second) const {
    return entries_[first].level < entries_[second].level;
  }
  // Returns whether running jobs of `other` may have to give way to jobs of
  // `number`.
  bool TakesFrom(uint32_t number, uint32_t other) const {
    const Queue& queue = entries_[number].queue;
    if (number == other) return queue.order_preempts();
    return queue.preempts && IsAbove(number, other);
  }
  // Returns whether any queue takes devices from another or from itself.
  bool preempt() const { return preempt_; }
  // Returns whether `more` devices would exceed the queue's limit.
  bool IsFull(uint32_t number, uint32_t more) const;

  // Counts a device that a rank of the queue's job takes or gives back.
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

// Returns "cuda:0, cuda:1": the queue's devices as they were given.
std::string DevicesText(const Queue& queue);

}  // namespace gpupool::scheduler
