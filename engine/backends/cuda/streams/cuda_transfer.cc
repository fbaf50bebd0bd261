#include "engine/backends/cuda/streams/cuda_transfer.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "engine/backends/cuda/driver/cuda_status.h"
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

class PinnedRange : public HostRegistration {
 public:
  PinnedRange(HostRanges* registered, absl::Span<std::byte> host)
      : registered_(registered), host_(host) {}
  ~PinnedRange() override {
    // Unpins first: after Remove the same pages may be registered again.
    cudaHostUnregister(host_.data());
    registered_->Remove(host_);
  }
  PinnedRange(const PinnedRange&) = delete;
  PinnedRange& operator=(const PinnedRange&) = delete;

 private:
  HostRanges* const registered_;
  const absl::Span<std::byte> host_;
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

absl::Status CudaTransfer::Mark() {
  if (!mark_.has_value()) {
    ASSIGN_OR_RETURN(mark_, Event::Create());
  }
  return mark_->Record(*stream_);
}

absl::Status CudaTransfer::Await(Transfer& other) {
  // All transfers of a GPU are of this class.
  auto& earlier = static_cast<CudaTransfer&>(other);
  RETURN_IF_ERROR(earlier.Mark());
  return earlier.mark_->Await(*stream_);
}

absl::StatusOr<std::unique_ptr<StagingBuffer>> CudaTransfer::AllocateStaging(
    uint64_t bytes) {
  void* data = nullptr;
  // Never 0 bytes, for which there may be no address.
  const uint64_t least = std::max(bytes, kAlignmentBytes);
  RETURN_IF_ERROR(
      StatusOf(cudaHostAlloc(&data, least, cudaHostAllocPortable),
               absl::StrCat("pinning ", bytes, " bytes of host memory")));
  return std::make_unique<PinnedBuffer>(data);
}

absl::StatusOr<std::unique_ptr<HostRegistration>> CudaTransfer::Register(
    absl::Span<std::byte> host) {
  // Reserved before it is pinned, since CUDA refuses to pin pages twice.
  if (!registered_->Add(host)) {
    return absl::InvalidArgumentError(
        absl::StrCat(host.size(), " bytes of host memory cannot be pinned: ",
                     "they overlap what is pinned already, or are none"));
  }
  const absl::Status pinned = StatusOf(
      cudaHostRegister(host.data(), host.size(), cudaHostRegisterPortable),
      absl::StrCat("pinning ", host.size(),
                   " bytes of host memory where they are"));
  if (pinned.ok()) return std::make_unique<PinnedRange>(registered_, host);
  registered_->Remove(host);
  return pinned;
}

}  // namespace gpupool::engine::cuda
