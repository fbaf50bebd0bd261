#include "engine/backends/cuda/cuda_backend.h"

#include <new>
#include <utility>

#include "engine/backends/cuda/driver/cuda_status.h"
#include "engine/backends/portable/launch/device_status.h"
#include "engine/base/status_macros.h"

namespace gpupool::engine::cuda {
absl::StatusOr<std::unique_ptr<CudaBackend>> CudaBackend::Create(
    CudaBackendOptions options) {
  std::unique_ptr<CudaBackend> backend(new CudaBackend(std::move(options)));
  void* error = nullptr;
  RETURN_IF_ERROR(
      StatusOf(cudaHostAlloc(&error, sizeof(portable::DeviceError),
                             cudaHostAllocMapped | cudaHostAllocPortable),
               "pinning the place of errors"));
  backend->error_ = new (error) portable::DeviceError;
  return backend;
}

CudaBackend::~CudaBackend() {
  if (error_ != nullptr) cudaFreeHost(error_);
}

absl::StatusOr<std::unique_ptr<Kernel>> CudaBackend::Compile(
    const CompileRequest& request) {
  portable::PortableContext context;
  context.stream.handle = options_.stream->handle();
  context.error = error_;
  context.resident_threads = ResidentThreads(*options_.facts);
  return choice_.Choose(request, context);
}

// A failed launch is only visible as the thread's last error. It is read here,
// before the other back end takes it for its own.
std::unique_ptr<Recording> CudaBackend::Record(
    std::function<absl::Status()> queue) {
  return graphs_.Record([queue = std::move(queue)]() -> absl::Status {
    RETURN_IF_ERROR(queue());
    return StatusOf(cudaGetLastError(), "launching a kernel");
  });
}

absl::Status CudaBackend::FinishRun(const Graph& graph) {
  // Read first: the calls below would overwrite the error.
  const absl::Status launched =
      StatusOf(cudaGetLastError(), "launching a kernel");
  // If a rank is lost, synchronizing with the stream would block forever.
  if (ranks() != nullptr) RETURN_IF_ERROR(ranks()->AwaitCompute());
  RETURN_IF_ERROR(transfer_.Synchronize());
  RETURN_IF_ERROR(launched);
  if (error_->code == portable::kNoDeviceError) return absl::OkStatus();
  const portable::DeviceError found = *error_;
  // Cleared, so that the next run starts without an error.
  *error_ = {};
  const auto position = static_cast<size_t>(found.node);
  if (found.node < 0 || position >= graph.nodes().size()) {
    return absl::InternalError("a kernel reported an error for no node");
  }
  const Node& node = graph.nodes()[position];
  return portable::StatusOf(found, node.op, node.source);
}

}  // namespace gpupool::engine::cuda
