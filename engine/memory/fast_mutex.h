// A mutex for paths of a few nanoseconds. Debian's Abseil is built with a check
// of lock orders, which makes absl::Mutex four times as slow as std::mutex.
// This wraps std::mutex with Abseil's annotations. Hold it briefly, and never
// take another lock while it is held.
#pragma once

#include <mutex>

#include "absl/base/thread_annotations.h"

namespace gpupool::engine {

class ABSL_LOCKABLE FastMutex {
 public:
  void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { mutex_.lock(); }
  void Unlock() ABSL_UNLOCK_FUNCTION() { mutex_.unlock(); }

 private:
  std::mutex mutex_;
};

class ABSL_SCOPED_LOCKABLE FastMutexLock {
 public:
  explicit FastMutexLock(FastMutex* mutex) ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex)
      : mutex_(mutex) {
    mutex_->Lock();
  }
  ~FastMutexLock() ABSL_UNLOCK_FUNCTION() { mutex_->Unlock(); }
  FastMutexLock(const FastMutexLock&) = delete;
  FastMutexLock& operator=(const FastMutexLock&) = delete;

 private:
  FastMutex* const mutex_;
};

}  // namespace gpupool::engine
