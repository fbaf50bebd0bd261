#include "scheduler/state/queues.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "scheduler/state/device_choice.h"

namespace gpupool::scheduler {

Queues::Queues(const QueuePolicy& policy) {
  for (const Queue& queue : policy.queues) entries_.push_back({queue});
  if (!Has(kDefaultQueue)) {
    entries_.push_back({Queue{.order = policy.order,
                              .hysteresis = policy.hysteresis,
                              .min_run = policy.min_run}});
  }
  // Queues of one rank stay in the order of the configuration.
  std::stable_sort(entries_.begin(), entries_.end(),
                   [](const Entry& a, const Entry& b) {
                     return a.queue.rank > b.queue.rank;
                   });
  for (size_t i = 1; i < entries_.size(); ++i) {
    const Entry& before = entries_[i - 1];
    entries_[i].level =
        before.level + (before.queue.rank != entries_[i].queue.rank);
  }
  default_ = NumberOf(kDefaultQueue);
  const uint32_t lowest = entries_.back().level;
  preempt_ =
      std::any_of(entries_.begin(), entries_.end(), [&](const Entry& entry) {
        return entry.queue.order_preempts() ||
               (entry.queue.preempts && entry.level < lowest);
      });
}

void Queues::AddDevice(absl::string_view name, absl::string_view kind) {
  const bool is_accelerator = kind != kCpuKind;
  has_accelerators_ = has_accelerators_ || is_accelerator;
  for (Entry& entry : entries_) {
    const bool may_use = entry.queue.Lists(name, kind);
    if (may_use && is_accelerator) entry.has_accelerators = true;
    if (!entry.queue.devices.empty()) entry.may_use.push_back(may_use);
  }
}

bool Queues::Has(absl::string_view name) const {
  return std::any_of(entries_.begin(), entries_.end(),
                     [&](const Entry& e) { return e.queue.name == name; });
}

uint32_t Queues::NumberOf(absl::string_view name) const {
  // By default there is one queue only.
  if (entries_.size() == 1 || name.empty()) return default_;
  for (size_t i = 0; i < entries_.size(); ++i) {
    if (entries_[i].queue.name == name) return static_cast<uint32_t>(i);
  }
  return default_;
}

absl::InlinedVector<uint32_t, 8> Queues::InOrder() const {
  absl::InlinedVector<uint32_t, 8> order;
  for (uint32_t i = 0; i < entries_.size(); ++i) order.push_back(i);
  const auto key = [&](uint32_t i) {
    // On one level, the queue that holds the fewest devices comes first.
    return std::make_tuple(entries_[i].level, entries_[i].held_devices, i);
  };
  std::sort(order.begin(), order.end(),
            [&](uint32_t a, uint32_t b) { return key(a) < key(b); });
  return order;
}

std::string Queues::Names() const {
  std::vector<absl::string_view> names;
  for (const Entry& entry : entries_) names.push_back(entry.queue.name);
  const absl::string_view last = names.back();
  names.pop_back();
  return names.empty()
             ? std::string(last)
             : absl::StrCat(absl::StrJoin(names, ", "), " and ", last);
}

bool Queues::IsFull(uint32_t number, uint32_t more) const {
  const Entry& entry = entries_[number];
  return entry.queue.most && entry.held_devices + more > *entry.queue.most;
}

std::string DevicesText(const Queue& queue) {
  return absl::StrJoin(queue.devices, ", ");
}

}  // namespace gpupool::scheduler
