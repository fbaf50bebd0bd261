// A back end whose kernels are another one's, on protected memory and late: see
// protected_pages.h and work_queue.h. A recording queues what its first run
// queued, addresses and all, as a CUDA graph would.
//
// Thread-safety: one thread.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "engine/runtime/device_backend.h"
#include "tests/engine/standin/protected_pages.h"
#include "tests/engine/standin/work_queue.h"

namespace gpupool::engine::standin {

class QueuedTransfer : public Transfer {
 public:
  QueuedTransfer(const ProtectedPages* pages, WorkQueue* queue)
      : pages_(pages), queue_(queue) {}

  bool host_visible() const override { return false; }
  absl::Status CopyToDevice(std::byte* to,
                            absl::Span<const std::byte> from) override;
  absl::Status CopyFromDevice(absl::Span<std::byte> to,
                              const std::byte* from) override;
  absl::Status CopyOnDevice(std::byte* to, const std::byte* from,
                            uint64_t bytes) override;
  absl::Status Clear(std::byte* to, uint64_t bytes) override;
  absl::Status Synchronize() override;
  absl::StatusOr<std::unique_ptr<StagingBuffer>> AllocateStaging(
      uint64_t bytes) override;

 private:
  const ProtectedPages* const pages_;
  WorkQueue* const queue_;
};

class QueuedBackend : public DeviceBackend {
 public:
  // `pages` must outlive the back end.
  QueuedBackend(std::unique_ptr<DeviceBackend> kernels,
                const ProtectedPages* pages)
      : kernels_(std::move(kernels)),
        pages_(pages),
        transfer_(pages, &queue_) {}

  absl::StatusOr<std::unique_ptr<Kernel>> Compile(
      const CompileRequest& request) override;
  Transfer& transfer() override { return transfer_; }
  void BeginRun() override { kernels_->BeginRun(); }
  absl::Status FinishRun(const Graph& graph) override;
  std::unique_ptr<Recording> Record(
      std::function<absl::Status()> queue) override;

 private:
  const std::unique_ptr<DeviceBackend> kernels_;
  const ProtectedPages* const pages_;
  WorkQueue queue_;
  QueuedTransfer transfer_;
};

}  // namespace gpupool::engine::standin
