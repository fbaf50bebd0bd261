#include "engine/backends/cuda/graph_cache.h"

#include <utility>

#include "engine/backends/cuda/cuda_status.h"
#include "engine/backends/cuda/fault_class.h"
#include "engine/base/status_macros.h"

namespace gpupool::engine::cuda {

class GraphCache::GraphRecording : public Recording {
 public:
  GraphRecording(GraphCache* cache, std::function<absl::Status()> queue)
      : cache_(cache), queue_(std::move(queue)) {}
  ~GraphRecording() override { Drop(); }
  GraphRecording(const GraphRecording&) = delete;
  GraphRecording& operator=(const GraphRecording&) = delete;

  absl::Status Start() override;
  // Gives the graph up, if there is one.
  void Drop();

 private:
  absl::Status Capture();
  absl::Status Launch();

  GraphCache* const cache_;
  const std::function<absl::Status()> queue_;
  bool warm_ = false;   // ran once
  bool plain_ = false;  // cannot be captured
  cudaGraphExec_t graph_ = nullptr;
  std::list<GraphRecording*>::iterator place_;  // in recent_, with a graph
};

void GraphCache::GraphRecording::Drop() {
  if (graph_ == nullptr) return;
  cudaGraphExecDestroy(graph_);
  graph_ = nullptr;
  cache_->recent_.erase(place_);
}

absl::Status GraphCache::GraphRecording::Capture() {
  const cudaStream_t stream = cache_->stream_->handle();
  RETURN_IF_ERROR(
      StatusOf(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal),
               "beginning a capture"));
  absl::Status status = queue_();
  // A capture is ended whatever happened in it.
  cudaGraph_t graph = nullptr;
  const absl::Status ended =
      StatusOf(cudaStreamEndCapture(stream, &graph), "ending a capture");
  if (status.ok()) status = ended;
  if (status.ok()) {
    status = StatusOf(cudaGraphInstantiate(&graph_, graph, 0),
                      "making a graph executable");
  }
  if (graph != nullptr) cudaGraphDestroy(graph);
  if (!status.ok()) {
    graph_ = nullptr;
    return status;
  }
  cache_->recent_.push_front(this);
  place_ = cache_->recent_.begin();
  // Its last launch may still be running: destroying waits for nothing and
  // leaves that launch alone.
  if (cache_->recent_.size() > cache_->max_graphs_) {
    cache_->recent_.back()->Drop();
  }
  return absl::OkStatus();
}

absl::Status GraphCache::GraphRecording::Launch() {
  cache_->recent_.splice(cache_->recent_.begin(), cache_->recent_, place_);
  return StatusOf(cudaGraphLaunch(graph_, cache_->stream_->handle()),
                  "starting a graph");
}

absl::Status GraphCache::GraphRecording::Start() {
  if (graph_ != nullptr) return Launch();
  if (!warm_ || plain_) {
    warm_ = true;
    return queue_();
  }
  const absl::Status captured = Capture();
  if (captured.ok()) return Launch();
  if (EndsProcess(FaultOf(captured))) return captured;
  plain_ = true;
  return queue_();
}

std::unique_ptr<Recording> GraphCache::Record(
    std::function<absl::Status()> queue) {
  return std::make_unique<GraphRecording>(this, std::move(queue));
}

}  // namespace gpupool::engine::cuda
