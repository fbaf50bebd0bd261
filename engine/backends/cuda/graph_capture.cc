#include "engine/backends/cuda/graph_capture.h"

#include "engine/backends/cuda/cuda_status.h"
#include "engine/backends/cuda/fault_class.h"
#include "engine/base/status_macros.h"

namespace gpupool::engine::cuda {
namespace {

class CapturedGraph : public CapturedRun {
 public:
  CapturedGraph(const Stream* stream, cudaGraphExec_t graph)
      : stream_(stream), graph_(graph) {}
  // Waits for nothing: a launch that still runs is left alone.
  ~CapturedGraph() override { cudaGraphExecDestroy(graph_); }
  CapturedGraph(const CapturedGraph&) = delete;
  CapturedGraph& operator=(const CapturedGraph&) = delete;

  absl::Status Launch() override {
    return StatusOf(cudaGraphLaunch(graph_, stream_->handle()),
                    "starting a graph");
  }

 private:
  const Stream* const stream_;
  const cudaGraphExec_t graph_;
};

absl::StatusOr<cudaGraphExec_t> MakeGraph(
    const Stream& stream, const std::function<absl::Status()>& queue) {
  RETURN_IF_ERROR(StatusOf(
      cudaStreamBeginCapture(stream.handle(), cudaStreamCaptureModeThreadLocal),
      "beginning a capture"));
  absl::Status status = queue();
  // A capture is ended whatever happened in it.
  cudaGraph_t graph = nullptr;
  const absl::Status ended = StatusOf(
      cudaStreamEndCapture(stream.handle(), &graph), "ending a capture");
  if (status.ok()) status = ended;
  cudaGraphExec_t made = nullptr;
  if (status.ok()) {
    status = StatusOf(cudaGraphInstantiate(&made, graph, 0),
                      "making a graph executable");
  }
  if (graph != nullptr) cudaGraphDestroy(graph);
  if (!status.ok()) return status;
  return made;
}

}  // namespace

absl::StatusOr<std::unique_ptr<CapturedRun>> GraphCapturer::Capture(
    const std::function<absl::Status()>& queue) {
  auto graph = MakeGraph(*stream_, queue);
  if (graph.ok()) return std::make_unique<CapturedGraph>(stream_, *graph);
  if (EndsProcess(FaultOf(graph.status()))) return graph.status();
  return nullptr;
}

}  // namespace gpupool::engine::cuda
