// Times of launches by events of the CUDA runtime around them: what lies
// between two marks, gaps included, to half a microsecond.
#pragma once

#include <vector>

#include "engine/backends/cuda/streams/streams.h"
#include "engine/runtime/launch_timer.h"

namespace gpupool::engine::cuda {

class EventTimer : public LaunchTimer {
 public:
  // Of work on `stream`, which must outlive the timer.
  explicit EventTimer(const Stream* stream) : stream_(stream) {}
  ~EventTimer() override;
  EventTimer(const EventTimer&) = delete;
  EventTimer& operator=(const EventTimer&) = delete;

  absl::Status Start() override;
  absl::Status Mark(int node) override;
  absl::StatusOr<std::vector<NodeTime>> Stop() override;

 private:
  const Stream* const stream_;
  std::vector<cudaEvent_t> events_;  // kept from one timing to the next
  std::vector<int> nodes_;           // of the events of this timing
};

}  // namespace gpupool::engine::cuda
