// Runs tasks one after the other on a thread of its own: for long work that
// needs no device, so that no work of the device waits behind it.
//
// Thread-safety: Post and WaitUntilLeft from any thread; Stop or Finish once,
// from any thread except its own.
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
  // `name` is for tools that show threads: a constant of at most 15 bytes.
  explicit SideThread(const char* name);
  // Stops.
  ~SideThread();
  SideThread(const SideThread&) = delete;
  SideThread& operator=(const SideThread&) = delete;

  // Queues the task. No-op after Stop or Finish.
  void Post(std::function<void()> task);
  // Blocks until at most `most` tasks have not ended, including the running
  // one. The objects that an ended task held are gone then. Bounds the queue of
  // callers that wait before they post.
  void WaitUntilLeft(size_t most) const;
  // Waits for the running task. Waiting tasks never run.
  void Stop();
  // Runs all posted tasks, then returns.
  void Finish();

 private:
  void Run(const char* name);

  mutable absl::Mutex mutex_;
  std::deque<std::function<void()>> tasks_ ABSL_GUARDED_BY(mutex_);
  bool runs_ ABSL_GUARDED_BY(mutex_) = false;  // a task outside tasks_ runs
  bool ends_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace gpupool::server
