// A thread that sends points to a run while the caller reads a job's events.
//
// Thread-safety: one thread calls. The run is borrowed, and nobody else may use
// it before End has returned.
#pragma once

#include <thread>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/cli/mlflow/mlflow_run.h"
#include "client/cli/mlflow/point_queue.h"

namespace gpupool::client {

class PointSender {
 public:
  // Makes a call as soon as kMostMetricsPerCall points wait, or `pause` after
  // the call before if any do.
  PointSender(MlflowRun& run, absl::Duration pause);
  // Calls End.
  ~PointSender();
  PointSender(const PointSender&) = delete;
  PointSender& operator=(const PointSender&) = delete;

  // Adds a point. Blocks while many wait. Returns false once a call has failed.
  bool Add(MetricPoint point) { return queue_.Push(std::move(point)); }
  // Sends what is left, and returns the status of the first call that failed.
  absl::Status End();

 private:
  void Send();

  MlflowRun& run_;
  const absl::Duration pause_;
  PointQueue queue_;
  absl::Status status_;  // the thread's, until it is joined
  std::thread thread_;
};

}  // namespace gpupool::client
