#include "scheduler/state/waiting_jobs.h"

namespace gpupool::scheduler {

WaitingJobs::WaitingJobs(const WaitingJobs& other)
    : all_(other.all_), shapes_(other.shapes_) {
  for (const auto& [group, heads] : other.heads_) {
    for (const auto& [key, shape] : heads) {
      heads_[group][key] = &*shapes_.find(shape->first);
    }
  }
}

void WaitingJobs::Add(const QueueKey& key, const Shape& shape,
                      const WaitingGroup& group) {
  all_.insert(key);
  auto of_shape = shapes_.try_emplace(shape).first;
  Keys& keys = of_shape->second;
  const bool is_first = keys.empty() || key < *keys.begin();
  if (is_first) {
    Heads& heads = heads_[group];
    if (!keys.empty()) heads.erase(*keys.begin());
    heads.emplace(key, &*of_shape);
  }
  keys.insert(key);
}

void WaitingJobs::Remove(const QueueKey& key, const Shape& shape,
                         const WaitingGroup& group) {
  all_.erase(key);
  auto of_shape = shapes_.find(shape);
  if (of_shape == shapes_.end()) return;
  Keys& keys = of_shape->second;
  const bool was_first = !keys.empty() && *keys.begin() == key;
  keys.erase(key);
  if (was_first) {
    auto heads = heads_.find(group);
    heads->second.erase(key);
    if (!keys.empty()) heads->second.emplace(*keys.begin(), &*of_shape);
    if (heads->second.empty()) heads_.erase(heads);
  }
  if (keys.empty()) shapes_.erase(of_shape);
}

}  // namespace gpupool::scheduler
