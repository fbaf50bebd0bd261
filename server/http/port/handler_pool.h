// Threads that run jobs, and a bounded queue of those that wait.
//
// Thread-safety: any thread may add jobs. Ownership: owns its threads; the
// destructor runs the jobs that wait, and waits for all.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace gpupool::server {

class HandlerPool {
 public:
  HandlerPool(size_t threads, size_t most_waiting);
  ~HandlerPool();

  // Runs the job on one of the threads, in the order of the calls. Returns
  // false when `most_waiting` jobs wait already.
  bool Add(std::function<void()> job);

 private:
  void Run();

  const size_t most_waiting_;
  absl::Mutex mutex_;
  absl::CondVar added_;
  std::deque<std::function<void()>> jobs_ ABSL_GUARDED_BY(mutex_);
  size_t idle_ ABSL_GUARDED_BY(mutex_) = 0;  // threads that wait for a job
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace gpupool::server
