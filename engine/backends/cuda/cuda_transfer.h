// Copies between the host and a GPU, queued on the stream that computes, and
// pinned memory for them.
//
// Thread-safety: one thread at a time. The stream must outlive it.
#pragma once

#include "engine/backends/cuda/streams.h"
#include "engine/runtime/device_memory.h"

namespace gpupool::engine::cuda {

class CudaTransfer : public Transfer {
 public:
  explicit CudaTransfer(const Stream* stream) : stream_(stream) {}

  bool host_visible() const override { return false; }
  absl::Status CopyToDevice(std::byte* to,
                            absl::Span<const std::byte> from) override;
  absl::Status CopyFromDevice(absl::Span<std::byte> to,
                              const std::byte* from) override;
  absl::Status CopyOnDevice(std::byte* to, const std::byte* from,
                            uint64_t bytes) override;
  absl::Status Clear(std::byte* to, uint64_t bytes) override;
  absl::Status Synchronize() override;
  // Pinned.
  absl::StatusOr<std::unique_ptr<StagingBuffer>> AllocateStaging(
      uint64_t bytes) override;

 private:
  absl::Status Copy(void* to, const void* from, uint64_t bytes,
                    cudaMemcpyKind kind);

  const Stream* const stream_;
};

}  // namespace gpupool::engine::cuda
