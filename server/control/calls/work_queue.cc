#include "server/control/calls/work_queue.h"

#include <utility>

namespace gpupool::server {

WorkQueue::Result WorkQueue::TryPush(Work work) {
  absl::MutexLock lock(&mutex_);
  if (closed_) return Result::kClosed;
  if (items_.size() >= limit_) return Result::kFull;
  items_.push_back(std::move(work));
  return Result::kTaken;
}

WorkQueue::Result WorkQueue::Push(Work work) {
  absl::MutexLock lock(&mutex_);
  // The consumer must never wait for room, which only itself can make.
  if (consumer_ != std::this_thread::get_id()) {
    mutex_.Await(absl::Condition(this, &WorkQueue::HasRoom));
  }
  if (closed_) return Result::kClosed;
  items_.push_back(std::move(work));
  return Result::kTaken;
}

std::vector<Work> WorkQueue::PopBatch(size_t max, absl::Time deadline) {
  absl::MutexLock lock(&mutex_);
  mutex_.AwaitWithDeadline(absl::Condition(this, &WorkQueue::HasNews),
                           deadline);
  std::vector<Work> batch;
  while (!items_.empty() && batch.size() < max) {
    batch.push_back(std::move(items_.front()));
    items_.pop_front();
  }
  return batch;
}

void WorkQueue::Close() {
  absl::MutexLock lock(&mutex_);
  closed_ = true;
}

bool WorkQueue::closed_and_empty() const {
  absl::MutexLock lock(&mutex_);
  return closed_ && items_.empty();
}

size_t WorkQueue::size() const {
  absl::MutexLock lock(&mutex_);
  return items_.size();
}

void WorkQueue::SetConsumer(std::thread::id id) {
  absl::MutexLock lock(&mutex_);
  consumer_ = id;
}

}  // namespace gpupool::server
