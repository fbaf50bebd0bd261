// Runs tasks one after the other on a thread of its own, beside the compute
// thread: for what takes long and needs no device, so that nothing that does
// waits behind it.
//
// Thread-safety: Post and WaitUntilLeft from any thread; Stop or Finish once,
// from any other than its own.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace gpupool::server {

class SideThread {
 public:
  // `name` is for tools that show threads: at most 15 bytes, a constant.
  explicit SideThread(const char* name);
  // Stops.
  ~SideThread();
  SideThread(const SideThread&) = delete;
  SideThread& operator=(const SideThread&) = delete;

  // After Stop or Finish nothing is taken any more.
  void Post(std::function<void()> task);
  // Returns when at most so many tasks have not ended, the one that runs among
  // them; what an ended one held is gone. Bounds the queue of those who wait
  // before they post.
  void WaitUntilLeft(size_t most) const;
  // Returns when the task that runs has ended; those that wait never run.
  void Stop();
  // Returns when all that was posted has been run.
  void Finish();

 private:
  void Run(const char* name);

  mutable absl::Mutex mutex_;
  std::deque<std::function<void()>> tasks_ ABSL_GUARDED_BY(mutex_);
  bool runs_ ABSL_GUARDED_BY(mutex_) = false;  // a task, not in tasks_ any more
  bool ends_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace gpupool::server
