// Kernels for NVIDIA GPUs: a library's kernel where one takes the node, else
// the portable kernel. A back end queues everything on one stream in order,
// except copies, which may have their own stream. A GPU has one back end for
// training and one for serving (streams.h). Each waits only for its own work.
//
// Thread-safety: compute thread only, with the device current there. Kernels
// and recordings refer to the back end, which must outlive them.
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
  const Stream* copy = nullptr;        // of copies; null: they use `stream`
  CudaLibraries* libraries = nullptr;  // of `stream`; null: portable kernels
  HostRanges* registered = nullptr;    // shared by all transfers of the GPU
  // Most bytes of captured runs, and the counters of them (may be null).
  uint64_t recording_bytes = std::numeric_limits<uint64_t>::max();
  RecordingCounters* recordings = nullptr;
  // Receives the lines that KernelChoice logs. May be empty.
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
  // Returns true also when a rank of the group is lost: FinishRun returns that
  // error.
  bool RunIsDone() override {
    return ranks() != nullptr ? ranks()->ComputeIsDone()
                              : !options_.stream->IsBusy();
  }
  // Waits for the stream. Then returns the first error that a functor reported
  // about the data.
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
  // Returns null without a group.
  NcclGroup* ranks() const {
    return options_.libraries == nullptr ? nullptr
                                         : options_.libraries->ranks();
  }

  const CudaBackendOptions options_;
  CudaTransfer beside_;  // used only with options_.copy
  CudaTransfer transfer_;
  GraphCapturer capturer_;
  KernelChoice choice_;
  RecordingCache graphs_;
  // Lies in pinned memory, which kernels reach by the same address. So nothing
  // is copied while there is no error.
  portable::DeviceError* error_ = nullptr;
};

}  // namespace gpupool::engine::cuda
