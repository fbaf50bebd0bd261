// Kernels for NVIDIA GPUs: those of the libraries first, where they take the
// node, and the portable kernels for everything else. All that a back end
// queues is on one stream, in order, but copies beside it; a GPU has one for
// training and one for serving (streams.h), which wait for their own work only.
//
// Thread-safety: the compute thread's; the device must be current there.
// Kernels and recordings refer to the back end, which must outlive them.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <utility>

#include "absl/strings/string_view.h"
#include "engine/backends/cuda/cuda_libraries.h"
#include "engine/backends/cuda/driver/device_limits.h"
#include "engine/backends/cuda/kernel_choice.h"
#include "engine/backends/cuda/streams/cuda_transfer.h"
#include "engine/backends/cuda/streams/graph_capture.h"
#include "engine/backends/cuda/streams/streams.h"
#include "engine/backends/portable/launch/kernel_makers.h"
#include "engine/runtime/device_backend.h"
#include "engine/runtime/host_ranges.h"
#include "engine/runtime/recording_cache.h"

namespace gpupool::engine::cuda {

struct CudaBackendOptions {
  // These outlive the back end.
  const DeviceFacts* facts = nullptr;  // of the current device
  const Stream* stream = nullptr;
  const Stream* copy = nullptr;  // for copies beside it; null: there are none
  CudaLibraries* libraries = nullptr;  // of the stream; null: portable kernels
  HostRanges* registered = nullptr;    // of the GPU
  // Bound of the captured runs, and who counts them; null: nobody.
  uint64_t recording_bytes = std::numeric_limits<uint64_t>::max();
  RecordingCounters* recordings = nullptr;
  // Receives the lines of KernelChoice; may be empty.
  std::function<void(absl::string_view)> log;
};

class CudaBackend : public DeviceBackend {
 public:
  static absl::StatusOr<std::unique_ptr<CudaBackend>> Create(
      CudaBackendOptions options);
  ~CudaBackend() override;
  CudaBackend(const CudaBackend&) = delete;
  CudaBackend& operator=(const CudaBackend&) = delete;

  absl::StatusOr<std::unique_ptr<Kernel>> Compile(
      const CompileRequest& request) override;
  Transfer& transfer() override { return transfer_; }
  // With a group also when a rank is lost, which FinishRun then says.
  bool RunIsDone() override {
    return ranks() != nullptr ? ranks()->ComputeIsDone()
                              : !options_.stream->IsBusy();
  }
  // Waits for the stream; then what functors reported about the data.
  absl::Status FinishRun(const Graph& graph) override;
  std::unique_ptr<Recording> Record(
      std::function<absl::Status()> queue) override;

 private:
  explicit CudaBackend(CudaBackendOptions options)
      : options_(std::move(options)),
        beside_(options_.copy, options_.registered),
        transfer_(options_.stream, options_.registered,
                  options_.copy == nullptr ? nullptr : &beside_),
        capturer_(options_.stream),
        choice_(options_.facts, options_.libraries, options_.log),
        graphs_(&capturer_, {.bytes = options_.recording_bytes,
                             .counters = options_.recordings,
                             .log = options_.log}) {}
  // Null without a group.
  NcclGroup* ranks() const {
    return options_.libraries == nullptr ? nullptr
                                         : options_.libraries->ranks();
  }

  const CudaBackendOptions options_;
  CudaTransfer beside_;  // used with options_.copy only
  CudaTransfer transfer_;
  GraphCapturer capturer_;
  KernelChoice choice_;
  RecordingCache graphs_;
  // In pinned memory, which kernels reach by the same address: nothing is
  // copied as long as nothing is wrong.
  portable::DeviceError* error_ = nullptr;
};

}  // namespace gpupool::engine::cuda
