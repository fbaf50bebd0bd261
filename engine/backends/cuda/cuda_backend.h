// Kernels for NVIDIA GPUs: those of the libraries first, where they take the
// node, and the portable kernels for everything else.
//
// Thread-safety: the compute thread's; the device must be current there.
// Kernels and recordings refer to the back end, which must outlive them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/string_view.h"
#include "engine/backends/cuda/cuda_libraries.h"
#include "engine/backends/cuda/cuda_transfer.h"
#include "engine/backends/cuda/graph_cache.h"
#include "engine/backends/cuda/streams.h"
#include "engine/backends/portable/kernel_makers.h"
#include "engine/runtime/device_backend.h"

namespace gpupool::engine::cuda {

class CudaBackend : public DeviceBackend {
 public:
  // `stream` and `libraries` must outlive the back end; without libraries all
  // kernels are portable ones. `log`, which may be empty, receives a line when
  // a library refuses what it should take; no line twice.
  static absl::StatusOr<std::unique_ptr<CudaBackend>> Create(
      const Stream* stream, CudaLibraries* libraries,
      std::function<void(absl::string_view)> log);
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
  CudaBackend(const Stream* stream, CudaLibraries* libraries,
              std::function<void(absl::string_view)> log)
      : stream_(stream),
        libraries_(libraries),
        log_(std::move(log)),
        transfer_(stream),
        graphs_(stream) {}
  void Report(const Node& node, const absl::Status& refusal);

  const Stream* const stream_;
  CudaLibraries* const libraries_;
  const std::function<void(absl::string_view)> log_;
  absl::flat_hash_set<std::string> reported_;  // a bounded number
  CudaTransfer transfer_;
  GraphCache graphs_;
  int64_t resident_threads_ = 0;
  // In pinned memory, which kernels reach by the same address: nothing is
  // copied as long as nothing is wrong.
  portable::DeviceError* error_ = nullptr;
};

}  // namespace gpupool::engine::cuda
