#include "server/worker/side_thread.h"

#include <sys/prctl.h>

#include <utility>

namespace gpupool::server {

SideThread::SideThread() : thread_([this] { Run(); }) {}

SideThread::~SideThread() { Stop(); }

void SideThread::Post(std::function<void()> task) {
  absl::MutexLock lock(&mutex_);
  if (!stopped_) tasks_.push_back(std::move(task));
}

void SideThread::Stop() {
  {
    absl::MutexLock lock(&mutex_);
    stopped_ = true;
    tasks_.clear();
  }
  if (thread_.joinable()) thread_.join();
}

void SideThread::Run() {
  ::prctl(PR_SET_NAME, "side");
  while (true) {
    std::function<void()> task;
    {
      absl::MutexLock lock(&mutex_);
      const auto has_work = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
        return stopped_ || !tasks_.empty();
      };
      mutex_.Await(absl::Condition(&has_work));
      if (stopped_) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    task();
  }
}

}  // namespace gpupool::server
