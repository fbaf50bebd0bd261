// Runs tasks one after the other on a thread of its own, beside the compute
// thread: for what takes long and needs no device, so that nothing that does
// waits behind it.
//
// Thread-safety: Post from any thread; Stop once, from any other than its own.
#pragma once

#include <deque>
#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace gpupool::server {

class SideThread {
 public:
  SideThread();
  // Stops.
  ~SideThread();
  SideThread(const SideThread&) = delete;
  SideThread& operator=(const SideThread&) = delete;

  // After Stop nothing is taken any more.
  void Post(std::function<void()> task);
  // Returns when the task that runs has ended; those that wait never run.
  void Stop();

 private:
  void Run();

  absl::Mutex mutex_;
  std::deque<std::function<void()>> tasks_ ABSL_GUARDED_BY(mutex_);
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace gpupool::server
