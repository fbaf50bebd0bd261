#include "engine/backends/cuda/streams/graph_capture.h"

#include <algorithm>
#include <cstdint>

#include "engine/backends/cuda/driver/cuda_status.h"
#include "engine/backends/cuda/driver/fault_class.h"
#include "engine/base/status_macros.h"

namespace gpupool::engine::cuda {
namespace {

// Estimated device memory of an executable graph, per node. The driver may take
// it from memory that it holds already, so that the free bytes do not change.
constexpr uint64_t kNodeBytes = uint64_t{16} << 10;

// An executable graph and the device memory that it holds.
struct MadeGraph {
  cudaGraphExec_t graph = nullptr;
  uint64_t bytes = 0;
};

class CapturedGraph : public CapturedRun {
 public:
  CapturedGraph(const Stream* stream, const MadeGraph& made)
      : stream_(stream), made_(made) {}
  // Does not wait. CUDA lets a launch that still runs finish.
  ~CapturedGraph() override { cudaGraphExecDestroy(made_.graph); }
  CapturedGraph(const CapturedGraph&) = delete;
  CapturedGraph& operator=(const CapturedGraph&) = delete;

  absl::Status Launch() override {
    return StatusOf(cudaGraphLaunch(made_.graph, stream_->handle()),
                    "starting a graph");
  }
  uint64_t bytes() const override { return made_.bytes; }

 private:
  const Stream* const stream_;
  const MadeGraph made_;
};

absl::StatusOr<uint64_t> FreeBytes() {
  size_t free = 0, total = 0;
  RETURN_IF_ERROR(
      StatusOf(cudaMemGetInfo(&free, &total), "asking for free memory"));
  return free;
}

// Makes the graph executable and uploads it, so that the driver takes the
// memory of the first launch now.
absl::Status Instantiate(const Stream& stream, cudaGraph_t graph,
                         MadeGraph& made) {
  size_t nodes = 0;
  RETURN_IF_ERROR(StatusOf(cudaGraphGetNodes(graph, nullptr, &nodes),
                           "counting a graph's nodes"));
  ASSIGN_OR_RETURN(const uint64_t before, FreeBytes());
  RETURN_IF_ERROR(StatusOf(cudaGraphInstantiate(&made.graph, graph, 0),
                           "making a graph executable"));
  RETURN_IF_ERROR(StatusOf(cudaGraphUpload(made.graph, stream.handle()),
                           "bringing a graph to the device"));
  ASSIGN_OR_RETURN(const uint64_t after, FreeBytes());
  // Another process may free memory in between, so the difference alone could
  // be too small.
  made.bytes = std::max(before - std::min(before, after), nodes * kNodeBytes);
  return absl::OkStatus();
}

absl::StatusOr<MadeGraph> MakeGraph(
    const Stream& stream, const std::function<absl::Status()>& queue) {
  // Thread-local: other threads may go on to call CUDA during the capture.
  RETURN_IF_ERROR(StatusOf(
      cudaStreamBeginCapture(stream.handle(), cudaStreamCaptureModeThreadLocal),
      "beginning a capture"));
  absl::Status status = queue();
  // Ends the capture even after an error. Otherwise the stream would stay in
  // capture mode.
  cudaGraph_t graph = nullptr;
  const absl::Status ended = StatusOf(
      cudaStreamEndCapture(stream.handle(), &graph), "ending a capture");
  if (status.ok()) status = ended;
  MadeGraph made;
  if (status.ok()) status = Instantiate(stream, graph, made);
  if (graph != nullptr) cudaGraphDestroy(graph);
  if (status.ok()) return made;
  if (made.graph != nullptr) cudaGraphExecDestroy(made.graph);
  return status;
}

}  // namespace

absl::StatusOr<std::unique_ptr<CapturedRun>> GraphCapturer::Capture(
    const std::function<absl::Status()>& queue) {
  auto graph = MakeGraph(*stream_, queue);
  if (graph.ok()) return std::make_unique<CapturedGraph>(stream_, *graph);
  // Null: the run goes on without a recording.
  if (EndsProcess(FaultOf(graph.status()))) return graph.status();
  return nullptr;
}

}  // namespace gpupool::engine::cuda
