#include "server/control/jobs/event_streams.h"

namespace gpupool::server {

uint64_t EventStreams::Subscribe(uint64_t job, std::function<void()> wake) {
  absl::MutexLock lock(&mutex_);
  const uint64_t id = ++last_id_;
  job_of_[id] = job;
  wakes_[{job, id}] = std::move(wake);
  return id;
}

void EventStreams::Unsubscribe(uint64_t subscription) {
  absl::MutexLock lock(&mutex_);
  auto it = job_of_.find(subscription);
  if (it == job_of_.end()) return;
  wakes_.erase({it->second, subscription});
  job_of_.erase(it);
}

void EventStreams::Wake(const absl::btree_set<uint64_t>& jobs) {
  absl::MutexLock lock(&mutex_);
  if (wakes_.empty()) return;
  for (uint64_t job : jobs) {
    for (auto it = wakes_.lower_bound({job, 0});
         it != wakes_.end() && it->first.first == job; ++it) {
      it->second();
    }
  }
}

}  // namespace gpupool::server
