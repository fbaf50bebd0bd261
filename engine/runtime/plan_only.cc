#include "engine/runtime/plan_only.h"

#include "engine/base/status_macros.h"

namespace gpupool::engine {
namespace {

absl::Status Refusal() {
  return absl::FailedPreconditionError(
      "this back end only plans: it has no device to run on; the worker of the "
      "device makes the program that runs");
}

}  // namespace

absl::Status PlanOnlyKernel::Run() { return Refusal(); }

absl::Status PlanOnlyTransfer::CopyToDevice(std::byte*,
                                            absl::Span<const std::byte>) {
  return Refusal();
}

absl::Status PlanOnlyTransfer::CopyFromDevice(absl::Span<std::byte>,
                                              const std::byte*) {
  return Refusal();
}

absl::Status PlanOnlyTransfer::CopyOnDevice(std::byte*, const std::byte*,
                                            uint64_t) {
  return Refusal();
}

absl::Status PlanOnlyTransfer::Clear(std::byte*, uint64_t) { return Refusal(); }

absl::StatusOr<std::unique_ptr<StagingBuffer>>
PlanOnlyTransfer::AllocateStaging(uint64_t) {
  return Refusal();
}

absl::StatusOr<std::unique_ptr<Kernel>> PlanOnlyBackend::Compile(
    const CompileRequest& request) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Kernel> kernel,
                   chooser_->Compile(request));
  return std::make_unique<PlanOnlyKernel>(
      KernelSizes{.workspace_bytes = kernel->workspace_bytes(),
                  .resident_bytes = kernel->resident_bytes(),
                  .resident_format = kernel->resident_format()});
}

}  // namespace gpupool::engine
