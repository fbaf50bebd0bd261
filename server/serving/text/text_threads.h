// The threads that compute models of texts, for all versions together. They
// start with the first work.
//
// Thread-safety: any thread. The destructor waits for the work that runs and
// drops the rest.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace gpupool::server {

class TextThreads {
 public:
  static constexpr size_t kThreads = 2;

  TextThreads() = default;
  ~TextThreads();
  TextThreads(const TextThreads&) = delete;
  TextThreads& operator=(const TextThreads&) = delete;

  // Runs `work` on one of the threads, after what was posted before. A caller
  // bounds how much it posts.
  void Post(std::function<void()> work);

 private:
  void Loop();

  absl::Mutex mutex_;
  std::deque<std::function<void()>> waiting_ ABSL_GUARDED_BY(mutex_);
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace gpupool::server
