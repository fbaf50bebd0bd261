// One thread that calls back at given times, for all parts of serving that wait
// for a time instead of an event.
//
// Thread-safety: any thread. Callbacks run one after the other on the timer's
// thread and must be short. The destructor waits for a running callback and
// drops the pending ones.
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

  // Calls `callback` once at `time` or soon after: at once for a time in the
  // past, but never on this thread.
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
  // Earliest on top.
  std::priority_queue<Alarm> alarms_ ABSL_GUARDED_BY(mutex_);
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace gpupool::server
