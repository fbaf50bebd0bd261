// Brings copies of checkpoints to the disk on a thread of its own, one after
// the other, behind the training. Bounded by those who post: they first wait
// until few enough are left, so that a slow disk slows training down instead of
// filling the host's memory.
//
// Thread-safety: any thread.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace gpupool::server {

class CheckpointWriter {
 public:
  CheckpointWriter();
  // Finishes.
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  // Returns when at most so many writes have not ended.
  void WaitUntilLeft(size_t most) const;
  // After Finish nothing is taken any more.
  void Post(std::function<void()> write);
  // Returns when all that was posted has been run.
  void Finish();

 private:
  void Run();

  mutable absl::Mutex mutex_;
  // The front runs.
  std::deque<std::function<void()>> writes_ ABSL_GUARDED_BY(mutex_);
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace gpupool::server
