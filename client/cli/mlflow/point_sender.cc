#include "client/cli/mlflow/point_sender.h"

#include <utility>
#include <vector>

#include "absl/time/clock.h"

namespace gpupool::client {
namespace {

// The points that a job reports during one call fit in. More would only be held
// here instead of by the gpupool server.
constexpr size_t kWaitingPoints = 4 * kMostMetricsPerCall;

}  // namespace

PointSender::PointSender(MlflowRun& run, absl::Duration pause)
    : run_(run),
      pause_(pause),
      queue_(kWaitingPoints),
      thread_([this] { Send(); }) {}

PointSender::~PointSender() { End().IgnoreError(); }

absl::Status PointSender::End() {
  queue_.End();
  if (thread_.joinable()) thread_.join();
  return status_;
}

void PointSender::Send() {
  absl::Time patience = absl::Now() + pause_;
  while (true) {
    const std::vector<MetricPoint> points =
        queue_.Take(kMostMetricsPerCall, patience);
    if (points.empty()) return;
    status_ = run_.Log(points);
    if (!status_.ok()) {
      queue_.Close();
      return;
    }
    patience = absl::Now() + pause_;
  }
}

}  // namespace gpupool::client
