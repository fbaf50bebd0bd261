// One thread that calls back at given times; for everything in serving that
// waits for time and not for an event.
//
// Thread-safety: any thread. Callbacks run one after the other on the timer's
// thread and must be short. The destructor waits for a running callback and
// drops those that are not due.
#pragma once

#include <cstdint>
#include <functional>
#include <queue>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace gpupool::server {

class WakeTimer {
 public:
  WakeTimer();
  ~WakeTimer();
  WakeTimer(const WakeTimer&) = delete;
  WakeTimer& operator=(const WakeTimer&) = delete;

  // Calls `callback` once at `time` or soon after. A time in the past means
  // at once, but never on this thread.
  void CallAt(absl::Time time, std::function<void()> callback);

 private:
  struct Alarm {
    absl::Time time;
    std::function<void()> callback;
    bool operator<(const Alarm& other) const { return time > other.time; }
  };

  void Run();

  absl::Mutex mutex_;
  absl::CondVar changed_;
  std::priority_queue<Alarm> alarms_ ABSL_GUARDED_BY(mutex_);  // soonest on top
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace gpupool::server
