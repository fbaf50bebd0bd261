// Measures launches by events of the CUDA runtime between them. A time includes
// gaps and is good to half a microsecond.
#pragma once

#include <vector>

#include "engine/backends/cuda/streams/streams.h"
#include "engine/runtime/launch_timer.h"

namespace gpupool::engine::cuda {

class EventTimer : public LaunchTimer {
 public:
  // Times work on `stream`, which must outlive the timer.
  explicit EventTimer(const Stream* stream) : stream_(stream) {}
  ~EventTimer() override;
  EventTimer(const EventTimer&) = delete;
  EventTimer& operator=(const EventTimer&) = delete;

  absl::Status Start() override;
  absl::Status Mark(int node) override;
  absl::StatusOr<std::vector<NodeTime>> Stop() override;

 private:
  const Stream* const stream_;
  std::vector<cudaEvent_t> events_;  // reused by the next timing
  std::vector<int> nodes_;           // nodes of the current timing's events
};

}  // namespace gpupool::engine::cuda
