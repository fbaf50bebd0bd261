#include "server/serving/wake_timer.h"

#include <utility>

namespace gpupool::server {

WakeTimer::WakeTimer() : thread_([this] { Run(); }) {}

WakeTimer::~WakeTimer() {
  {
    absl::MutexLock lock(&mutex_);
    stop_ = true;
    changed_.Signal();
  }
  thread_.join();
}

void WakeTimer::CallAt(absl::Time time, std::function<void()> callback) {
  absl::MutexLock lock(&mutex_);
  const bool soonest = alarms_.empty() || time < alarms_.top().time;
  alarms_.push({time, std::move(callback)});
  if (soonest) changed_.Signal();
}

void WakeTimer::Run() {
  absl::MutexLock lock(&mutex_);
  while (!stop_) {
    if (alarms_.empty()) {
      changed_.Wait(&mutex_);
    } else if (alarms_.top().time > absl::Now()) {
      const absl::Time time = alarms_.top().time;
      changed_.WaitWithDeadline(&mutex_, time);
    } else {
      const std::function<void()> callback = alarms_.top().callback;
      alarms_.pop();
      // Unlocked for the call, which may set the next alarm.
      mutex_.Unlock();
      callback();
      mutex_.Lock();
    }
  }
}

}  // namespace gpupool::server
