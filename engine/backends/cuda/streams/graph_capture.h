// Captures whole runs as CUDA graphs, for a RecordingCache.
//
// Thread-safety: compute thread only. The stream must outlive the capturer and
// its graphs.
#pragma once

#include <functional>
#include <memory>

#include "engine/backends/cuda/streams/streams.h"
#include "engine/runtime/recording_cache.h"

namespace gpupool::engine::cuda {

class GraphCapturer : public Capturer {
 public:
  explicit GraphCapturer(const Stream* stream) : stream_(stream) {}
  // Returns an error only when the process must end.
  absl::StatusOr<std::unique_ptr<CapturedRun>> Capture(
      const std::function<absl::Status()>& queue) override;

 private:
  const Stream* const stream_;
};

}  // namespace gpupool::engine::cuda
