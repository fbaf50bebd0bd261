// Whole runs captured as CUDA graphs. A run is queued plainly the first time,
// which lets libraries choose and load what they need, captured the second
// time, and replayed from then on. A bounded number of graphs is kept; the one
// that was used longest ago goes first and is captured again when needed.
//
// Thread-safety: the compute thread's. The cache must outlive its recordings.
#pragma once

#include <cstddef>
#include <functional>
#include <list>
#include <memory>

#include "engine/backends/cuda/streams.h"
#include "engine/runtime/device_backend.h"

namespace gpupool::engine::cuda {

class GraphCache {
 public:
  static constexpr size_t kDefaultGraphs = 64;

  // Keeps at most `max_graphs` >= 1.
  explicit GraphCache(const Stream* stream, size_t max_graphs = kDefaultGraphs)
      : stream_(stream), max_graphs_(max_graphs) {}
  GraphCache(const GraphCache&) = delete;
  GraphCache& operator=(const GraphCache&) = delete;

  // Work that cannot be captured is queued plainly for ever.
  std::unique_ptr<Recording> Record(std::function<absl::Status()> queue);

  size_t graphs() const { return recent_.size(); }

 private:
  class GraphRecording;

  const Stream* const stream_;
  const size_t max_graphs_;
  std::list<GraphRecording*> recent_;  // those with a graph, newest first
};

}  // namespace gpupool::engine::cuda
