#include "engine/runtime/device_memory.h"

#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "engine/base/align.h"

namespace gpupool::engine {
namespace {

class HostStaging : public StagingBuffer {
 public:
  explicit HostStaging(std::byte* data) : data_(data) {}
  ~HostStaging() override { std::free(data_); }
  HostStaging(const HostStaging&) = delete;
  HostStaging& operator=(const HostStaging&) = delete;
  std::byte* data() const override { return data_; }

 private:
  std::byte* const data_;
};

class HostTransfer : public Transfer {
 public:
  bool host_visible() const override { return true; }

  absl::Status CopyToDevice(std::byte* to,
                            absl::Span<const std::byte> from) override {
    return CopyOnDevice(to, from.data(), from.size());
  }
  absl::Status CopyFromDevice(absl::Span<std::byte> to,
                              const std::byte* from) override {
    return CopyOnDevice(to.data(), from, to.size());
  }
  absl::Status CopyOnDevice(std::byte* to, const std::byte* from,
                            uint64_t bytes) override {
    if (bytes > 0) std::memcpy(to, from, bytes);
    return absl::OkStatus();
  }
  absl::Status Clear(std::byte* to, uint64_t bytes) override {
    if (bytes > 0) std::memset(to, 0, bytes);
    return absl::OkStatus();
  }
  absl::Status Synchronize() override { return absl::OkStatus(); }

  absl::StatusOr<std::unique_ptr<StagingBuffer>> AllocateStaging(
      uint64_t bytes) override {
    const uint64_t rounded = AlignUp(bytes);
    // aligned_alloc requires a multiple of the alignment. A rounded size below
    // the requested one means that AlignUp has overflowed.
    void* data =
        rounded < bytes
            ? nullptr
            : std::aligned_alloc(kAlignmentBytes,
                                 rounded == 0 ? kAlignmentBytes : rounded);
    if (data == nullptr) {
      return absl::ResourceExhaustedError(
          absl::StrCat("the host has no ", bytes, " bytes for staging"));
    }
    return std::make_unique<HostStaging>(static_cast<std::byte*>(data));
  }
};

}  // namespace

Transfer& HostMemory() {
  static HostTransfer transfer;
  return transfer;
}

}  // namespace gpupool::engine
