// Points of metrics on their way from the thread that reads a job's events to
// the thread that sends them.
//
// Thread-safety: one thread pushes, one takes.
// Invariants:
//   1. At most `capacity` points wait.
//   2. Points are taken in the order in which they were pushed.
#pragma once

#include <cstddef>
#include <deque>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "client/cli/mlflow/run_messages.h"

namespace gpupool::client {

class PointQueue {
 public:
  explicit PointQueue(size_t capacity) : capacity_(capacity) {}

  // Adds a point, and blocks while the queue is full. Returns false, and adds
  // nothing, if the other thread takes no more.
  bool Push(MetricPoint point);
  // Says that no point follows.
  void End();

  // Removes and returns at most `most` points. Blocks
  //   until so many wait, or all that the queue has room for, or
  //   until `patience` is reached and there is a point, or
  //   until the end.
  // Returns nothing once the end is reached and all points were taken.
  std::vector<MetricPoint> Take(size_t most, absl::Time patience);
  // Says that no point will be taken any more.
  void Close();

 private:
  const size_t capacity_;
  absl::Mutex mutex_;
  std::deque<MetricPoint> points_ ABSL_GUARDED_BY(mutex_);
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace gpupool::client
