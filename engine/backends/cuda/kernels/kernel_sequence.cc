#include "engine/backends/cuda/kernels/kernel_sequence.h"

#include <algorithm>
#include <utility>

#include "engine/base/align.h"
#include "engine/base/check.h"
#include "engine/base/status_macros.h"

namespace gpupool::engine::cuda {

std::byte* AddressOf(const OperandPlace& place, const KernelBuffers& buffers) {
  switch (place.kind) {
    case OperandPlace::Kind::kInput:
      return buffers.inputs[place.index] + place.offset;
    case OperandPlace::Kind::kOutput:
      return buffers.outputs[place.index] + place.offset;
    default:
      return buffers.workspace + place.offset;
  }
}

KernelSequence::KernelSequence(std::vector<Step> steps, uint64_t scratch_bytes)
    : steps_(std::move(steps)),
      scratch_bytes_(AlignUp(scratch_bytes, kWorkspaceAlignment)) {
  for (const Step& step : steps_) {
    GPUPOOL_CHECK(step.kernel->resident_bytes() == 0);
    // Steps run one after the other, so they share one workspace behind the
    // scratch.
    shared_bytes_ = std::max(shared_bytes_, step.kernel->workspace_bytes());
  }
}

uint64_t KernelSequence::workspace_bytes() const {
  const uint64_t bytes = scratch_bytes_ + shared_bytes_;
  // Bind aligns the workspace itself, which may skip some bytes.
  return bytes == 0 ? 0 : bytes + kWorkspaceAlignment;
}

absl::Status KernelSequence::Bind(const KernelBuffers& buffers) {
  KernelBuffers aligned = buffers;
  aligned.workspace = reinterpret_cast<std::byte*>(AlignUp(
      reinterpret_cast<uint64_t>(buffers.workspace), kWorkspaceAlignment));
  for (Step& step : steps_) {
    KernelBuffers inner;
    for (const OperandPlace& place : step.inputs) {
      inner.inputs.push_back(AddressOf(place, aligned));
    }
    for (const OperandPlace& place : step.outputs) {
      inner.outputs.push_back(AddressOf(place, aligned));
    }
    inner.workspace = aligned.workspace + scratch_bytes_;
    RETURN_IF_ERROR(step.kernel->Bind(inner));
  }
  return absl::OkStatus();
}

absl::Status KernelSequence::Prepare() {
  for (Step& step : steps_) RETURN_IF_ERROR(step.kernel->Prepare());
  return absl::OkStatus();
}

absl::Status KernelSequence::Run() {
  for (Step& step : steps_) RETURN_IF_ERROR(step.kernel->Run());
  return absl::OkStatus();
}

}  // namespace gpupool::engine::cuda
