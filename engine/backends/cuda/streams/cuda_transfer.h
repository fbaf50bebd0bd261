// Copies between the host and a GPU, and pinned memory for them. They are
// queued on the stream that computes or on one for copies.
//
// Thread-safety: one thread at a time. The stream and the ranges must outlive
// the transfer.
#pragma once

#include <optional>

#include "engine/backends/cuda/streams/streams.h"
#include "engine/runtime/device_memory.h"
#include "engine/runtime/host_ranges.h"

namespace gpupool::engine::cuda {

class CudaTransfer : public Transfer {
 public:
  // All transfers of the GPU share `registered`. `beside` may be null and must
  // outlive this transfer.
  CudaTransfer(const Stream* stream, HostRanges* registered,
               CudaTransfer* beside = nullptr)
      : stream_(stream), registered_(registered), beside_(beside) {}

  bool host_visible() const override { return false; }
  absl::Status CopyToDevice(std::byte* to,
                            absl::Span<const std::byte> from) override;
  absl::Status CopyFromDevice(absl::Span<std::byte> to,
                              const std::byte* from) override;
  absl::Status CopyOnDevice(std::byte* to, const std::byte* from,
                            uint64_t bytes) override;
  absl::Status Clear(std::byte* to, uint64_t bytes) override;
  absl::Status Synchronize() override;
  Transfer* beside() override { return beside_; }
  // Waits on the device, by an event. Not allowed in a capture.
  absl::Status Await(Transfer& other) override;
  // Returns pinned memory.
  absl::StatusOr<std::unique_ptr<StagingBuffer>> AllocateStaging(
      uint64_t bytes) override;
  // Pins all pages at once, including untouched ones.
  absl::StatusOr<std::unique_ptr<HostRegistration>> Register(
      absl::Span<std::byte> host) override;
  bool IsRegistered(absl::Span<const std::byte> host) const override {
    return registered_->Hold(host);
  }

 private:
  absl::Status Copy(void* to, const void* from, uint64_t bytes,
                    cudaMemcpyKind kind);
  // Records the present end of the stream in mark_.
  absl::Status Mark();

  const Stream* const stream_;
  HostRanges* const registered_;
  CudaTransfer* const beside_;
  std::optional<Event> mark_;  // made on first use
};

}  // namespace gpupool::engine::cuda
