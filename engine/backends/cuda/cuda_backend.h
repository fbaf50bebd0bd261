// Kernels for NVIDIA GPUs: those of the libraries first, where they take the
// node, and the portable kernels for everything else.
//
// Thread-safety: the compute thread's; the device must be current there.
// Kernels and recordings refer to the back end, which must outlive them.
#pragma once

#include <functional>
#include <memory>

#include "engine/backends/cuda/cuda_transfer.h"
#include "engine/backends/cuda/graph_cache.h"
#include "engine/backends/cuda/streams.h"
#include "engine/backends/portable/kernel_makers.h"
#include "engine/runtime/device_backend.h"

namespace gpupool::engine::cuda {

class CudaBackend : public DeviceBackend {
 public:
  // `stream` must outlive the back end.
  static absl::StatusOr<std::unique_ptr<CudaBackend>> Create(
      const Stream* stream);
  ~CudaBackend() override;
  CudaBackend(const CudaBackend&) = delete;
  CudaBackend& operator=(const CudaBackend&) = delete;

  absl::StatusOr<std::unique_ptr<Kernel>> Compile(
      const CompileRequest& request) override;
  Transfer& transfer() override { return transfer_; }
  // Waits for the stream; then what functors reported about the data.
  absl::Status FinishRun(const Graph& graph) override;
  std::unique_ptr<Recording> Record(
      std::function<absl::Status()> queue) override {
    return graphs_.Record(std::move(queue));
  }

  const GraphCache& graphs() const { return graphs_; }

 private:
  explicit CudaBackend(const Stream* stream)
      : stream_(stream), transfer_(stream), graphs_(stream) {}

  const Stream* const stream_;
  CudaTransfer transfer_;
  GraphCache graphs_;
  // In pinned memory, which kernels reach by the same address: nothing is
  // copied as long as nothing is wrong.
  portable::DeviceError* error_ = nullptr;
};

}  // namespace gpupool::engine::cuda
