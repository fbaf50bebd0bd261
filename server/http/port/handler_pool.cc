#include "server/http/port/handler_pool.h"

#include <utility>

namespace gpupool::server {

HandlerPool::HandlerPool(size_t threads, size_t most_waiting)
    : most_waiting_(most_waiting) {
  threads_.reserve(threads);
  for (size_t i = 0; i < threads; ++i) {
    threads_.emplace_back([this] { Run(); });
  }
}

HandlerPool::~HandlerPool() {
  {
    absl::MutexLock lock(&mutex_);
    closed_ = true;
    added_.SignalAll();
  }
  for (std::thread& thread : threads_) thread.join();
}

bool HandlerPool::Add(std::function<void()> job) {
  absl::MutexLock lock(&mutex_);
  // Jobs that an idle thread is about to take do not wait.
  if (closed_ || jobs_.size() >= idle_ + most_waiting_) return false;
  jobs_.push_back(std::move(job));
  added_.Signal();
  return true;
}

void HandlerPool::Run() {
  while (true) {
    std::function<void()> job;
    {
      absl::MutexLock lock(&mutex_);
      ++idle_;
      while (jobs_.empty() && !closed_) added_.Wait(&mutex_);
      --idle_;
      if (jobs_.empty()) return;
      job = std::move(jobs_.front());
      jobs_.pop_front();
    }
    job();
  }
}

}  // namespace gpupool::server
