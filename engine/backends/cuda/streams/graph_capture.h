// Whole runs captured as CUDA graphs: for a RecordingCache, which keeps them.
//
// Thread-safety: the compute thread's. The stream must outlive it and its
// graphs.
#pragma once

#include <functional>
#include <memory>

#include "engine/backends/cuda/streams/streams.h"
#include "engine/runtime/recording_cache.h"

namespace gpupool::engine::cuda {

class GraphCapturer : public Capturer {
 public:
  explicit GraphCapturer(const Stream* stream) : stream_(stream) {}
  // An error only when the process must end for it.
  absl::StatusOr<std::unique_ptr<CapturedRun>> Capture(
      const std::function<absl::Status()>& queue) override;

 private:
  const Stream* const stream_;
};

}  // namespace gpupool::engine::cuda
