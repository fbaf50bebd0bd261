// Parts of back ends that only plan: their kernels have sizes but cannot run.
//
// Thread-safety: for one thread, like every DeviceBackend.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/runtime/device_backend.h"

namespace gpupool::engine {

struct KernelSizes {
  uint64_t workspace_bytes = 0;
  uint64_t resident_bytes = 0;
  std::string resident_format = {};
};

// A kernel that accepts addresses; Run returns FAILED_PRECONDITION.
class PlanOnlyKernel : public Kernel {
 public:
  explicit PlanOnlyKernel(KernelSizes sizes) : sizes_(std::move(sizes)) {}

  uint64_t workspace_bytes() const override { return sizes_.workspace_bytes; }
  uint64_t resident_bytes() const override { return sizes_.resident_bytes; }
  std::string resident_format() const override {
    return sizes_.resident_format;
  }
  absl::Status Bind(const KernelBuffers&) override { return absl::OkStatus(); }
  absl::Status Run() override;

 private:
  const KernelSizes sizes_;
};

// A transfer whose copies return FAILED_PRECONDITION. It may have a transfer
// beside it, like a GPU.
class PlanOnlyTransfer : public Transfer {
 public:
  // Uses `beside`, which may be null and must outlive this one.
  explicit PlanOnlyTransfer(Transfer* beside) : beside_(beside) {}

  bool host_visible() const override { return false; }
  absl::Status CopyToDevice(std::byte* to,
                            absl::Span<const std::byte> from) override;
  absl::Status CopyFromDevice(absl::Span<std::byte> to,
                              const std::byte* from) override;
  absl::Status CopyOnDevice(std::byte* to, const std::byte* from,
                            uint64_t bytes) override;
  absl::Status Clear(std::byte* to, uint64_t bytes) override;
  absl::Status Synchronize() override { return absl::OkStatus(); }
  Transfer* beside() override { return beside_; }
  absl::StatusOr<std::unique_ptr<StagingBuffer>> AllocateStaging(
      uint64_t bytes) override;

 private:
  Transfer* const beside_;
};

// A back end with the kernel sizes of another one, whose kernels are destroyed
// as soon as their sizes are known.
class PlanOnlyBackend : public DeviceBackend {
 public:
  // Plans with `chooser`. `copies_beside`: whether the device copies in
  // parallel to its work.
  PlanOnlyBackend(std::unique_ptr<DeviceBackend> chooser, bool copies_beside)
      : chooser_(std::move(chooser)),
        transfer_(copies_beside ? &beside_ : nullptr) {}

  absl::StatusOr<std::unique_ptr<Kernel>> Compile(
      const CompileRequest& request) override;
  Transfer& transfer() override { return transfer_; }
  bool PrefersIntegerProducts() const override {
    return chooser_->PrefersIntegerProducts();
  }

 private:
  const std::unique_ptr<DeviceBackend> chooser_;
  PlanOnlyTransfer beside_{nullptr};
  PlanOnlyTransfer transfer_;
};

}  // namespace gpupool::engine
