#include "engine/backends/cuda/cuda_transfer.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "engine/backends/cuda/cuda_status.h"
#include "engine/base/align.h"
#include "engine/base/status_macros.h"

namespace gpupool::engine::cuda {
namespace {

class PinnedBuffer : public StagingBuffer {
 public:
  explicit PinnedBuffer(void* data) : data_(data) {}
  ~PinnedBuffer() override { cudaFreeHost(data_); }
  PinnedBuffer(const PinnedBuffer&) = delete;
  PinnedBuffer& operator=(const PinnedBuffer&) = delete;
  std::byte* data() const override { return static_cast<std::byte*>(data_); }

 private:
  void* const data_;
};

}  // namespace

absl::Status CudaTransfer::Copy(void* to, const void* from, uint64_t bytes,
                                cudaMemcpyKind kind) {
  if (bytes == 0) return absl::OkStatus();
  return StatusOf(cudaMemcpyAsync(to, from, bytes, kind, stream_->handle()),
                  absl::StrCat("copying ", bytes, " bytes"));
}

absl::Status CudaTransfer::CopyToDevice(std::byte* to,
                                        absl::Span<const std::byte> from) {
  return Copy(to, from.data(), from.size(), cudaMemcpyHostToDevice);
}

absl::Status CudaTransfer::CopyFromDevice(absl::Span<std::byte> to,
                                          const std::byte* from) {
  return Copy(to.data(), from, to.size(), cudaMemcpyDeviceToHost);
}

absl::Status CudaTransfer::CopyOnDevice(std::byte* to, const std::byte* from,
                                        uint64_t bytes) {
  return Copy(to, from, bytes, cudaMemcpyDeviceToDevice);
}

absl::Status CudaTransfer::Clear(std::byte* to, uint64_t bytes) {
  if (bytes == 0) return absl::OkStatus();
  return StatusOf(cudaMemsetAsync(to, 0, bytes, stream_->handle()),
                  absl::StrCat("clearing ", bytes, " bytes"));
}

absl::Status CudaTransfer::Synchronize() {
  return StatusOf(cudaStreamSynchronize(stream_->handle()),
                  "waiting for the GPU");
}

absl::StatusOr<std::unique_ptr<StagingBuffer>> CudaTransfer::AllocateStaging(
    uint64_t bytes) {
  void* data = nullptr;
  const uint64_t least = std::max(bytes, kAlignmentBytes);
  RETURN_IF_ERROR(
      StatusOf(cudaHostAlloc(&data, least, cudaHostAllocPortable),
               absl::StrCat("pinning ", bytes, " bytes of host memory")));
  return std::make_unique<PinnedBuffer>(data);
}

}  // namespace gpupool::engine::cuda
