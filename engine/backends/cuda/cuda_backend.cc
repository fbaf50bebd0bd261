#include "engine/backends/cuda/cuda_backend.h"

#include <new>
#include <utility>

#include "engine/backends/cuda/cuda_status.h"
#include "engine/backends/portable/device_status.h"
#include "engine/base/status_macros.h"

namespace gpupool::engine::cuda {

absl::StatusOr<std::unique_ptr<CudaBackend>> CudaBackend::Create(
    const Stream* stream) {
  std::unique_ptr<CudaBackend> backend(new CudaBackend(stream));
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
  context.stream.handle = stream_->handle();
  context.error = error_;
  return portable::MakePortableKernel(request, context);
}

absl::Status CudaBackend::FinishRun(const Graph& graph) {
  RETURN_IF_ERROR(transfer_.Synchronize());
  // A launch that was refused leaves no other trace.
  RETURN_IF_ERROR(StatusOf(cudaGetLastError(), "launching a kernel"));
  if (error_->code == portable::kNoDeviceError) return absl::OkStatus();
  const portable::DeviceError found = *error_;
  *error_ = {};
  const auto position = static_cast<size_t>(found.node);
  if (found.node < 0 || position >= graph.nodes().size()) {
    return absl::InternalError("a kernel reported an error for no node");
  }
  const Node& node = graph.nodes()[position];
  return portable::StatusOf(found, node.op, node.source);
}

}  // namespace gpupool::engine::cuda
