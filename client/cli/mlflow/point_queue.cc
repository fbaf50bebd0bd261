#include "client/cli/mlflow/point_queue.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace gpupool::client {

bool PointQueue::Push(MetricPoint point) {
  absl::MutexLock lock(&mutex_);
  const auto has_room = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return closed_ || points_.size() < capacity_;
  };
  mutex_.Await(absl::Condition(&has_room));
  if (closed_) return false;
  points_.push_back(std::move(point));
  return true;
}

void PointQueue::End() {
  absl::MutexLock lock(&mutex_);
  ended_ = true;
}

std::vector<MetricPoint> PointQueue::Take(size_t most, absl::Time patience) {
  const size_t enough = std::min(most, capacity_);
  absl::MutexLock lock(&mutex_);
  const auto has_enough = [this, enough]()
                              ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
                                return ended_ || points_.size() >= enough;
                              };
  mutex_.AwaitWithDeadline(absl::Condition(&has_enough), patience);
  const auto has_any = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return ended_ || !points_.empty();
  };
  mutex_.Await(absl::Condition(&has_any));
  const auto end = points_.begin() +
                   static_cast<std::ptrdiff_t>(std::min(most, points_.size()));
  std::vector<MetricPoint> taken(std::make_move_iterator(points_.begin()),
                                 std::make_move_iterator(end));
  points_.erase(points_.begin(), end);
  return taken;
}

void PointQueue::Close() {
  absl::MutexLock lock(&mutex_);
  closed_ = true;
}

}  // namespace gpupool::client
