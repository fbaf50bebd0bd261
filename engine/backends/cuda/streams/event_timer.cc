#include "engine/backends/cuda/streams/event_timer.h"

#include <cmath>

#include "engine/backends/cuda/driver/cuda_status.h"
#include "engine/base/status_macros.h"

namespace gpupool::engine::cuda {

EventTimer::~EventTimer() {
  for (cudaEvent_t event : events_) cudaEventDestroy(event);
}

absl::Status EventTimer::Start() {
  nodes_.clear();
  return absl::OkStatus();
}

absl::Status EventTimer::Mark(int node) {
  if (nodes_.size() == events_.size()) {
    cudaEvent_t event = nullptr;
    RETURN_IF_ERROR(StatusOf(cudaEventCreate(&event), "making a timed event"));
    events_.push_back(event);
  }
  RETURN_IF_ERROR(
      StatusOf(cudaEventRecord(events_[nodes_.size()], stream_->handle()),
               "recording a timed event"));
  nodes_.push_back(node);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<NodeTime>> EventTimer::Stop() {
  std::vector<NodeTime> times;
  if (nodes_.empty()) return times;
  // Events of one stream end in order, so the last one ends last.
  RETURN_IF_ERROR(StatusOf(cudaEventSynchronize(events_[nodes_.size() - 1]),
                           "waiting for a timed event"));
  std::vector<int64_t> nanos;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    float millis = 0;
    RETURN_IF_ERROR(
        StatusOf(cudaEventElapsedTime(&millis, events_[0], events_[i]),
                 "reading a timed event"));
    nanos.push_back(std::llround(static_cast<double>(millis) * 1e6));
  }
  // The last mark only ends the time of the mark before it.
  for (size_t i = 0; i + 1 < nodes_.size(); ++i) {
    if (nodes_[i] >= 0) times.push_back({nodes_[i], nanos[i], nanos[i + 1], 0});
  }
  return times;
}

}  // namespace gpupool::engine::cuda
