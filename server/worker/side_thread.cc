#include "server/worker/side_thread.h"

#include <sys/prctl.h>

#include <utility>

namespace gpupool::server {

SideThread::SideThread(const char* name)
    : thread_([this, name] { Run(name); }) {}

SideThread::~SideThread() { Stop(); }

void SideThread::Post(std::function<void()> task) {
  absl::MutexLock lock(&mutex_);
  if (!ends_) tasks_.push_back(std::move(task));
}

void SideThread::WaitUntilLeft(size_t most) const {
  absl::MutexLock lock(&mutex_);
  const auto few = [this, most]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    // The task that runs is no longer in the queue.
    return tasks_.size() + (runs_ ? 1 : 0) <= most;
  };
  mutex_.Await(absl::Condition(&few));
}

void SideThread::Stop() {
  {
    absl::MutexLock lock(&mutex_);
    ends_ = true;
    tasks_.clear();
  }
  if (thread_.joinable()) thread_.join();
}

void SideThread::Finish() {
  {
    absl::MutexLock lock(&mutex_);
    ends_ = true;
  }
  if (thread_.joinable()) thread_.join();
}

void SideThread::Run(const char* name) {
  ::prctl(PR_SET_NAME, name);
  while (true) {
    std::function<void()> task;
    {
      absl::MutexLock lock(&mutex_);
      runs_ = false;
      const auto has_work = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
        return ends_ || !tasks_.empty();
      };
      mutex_.Await(absl::Condition(&has_work));
      // Finish sets `ends_` and keeps the tasks, so they all run first. Stop
      // has removed them.
      if (tasks_.empty()) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
      runs_ = true;
    }
    task();
  }
}

}  // namespace gpupool::server
