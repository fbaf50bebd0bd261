// A kernel that runs other kernels in turn, with scratch memory between them.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/runtime/device_backend.h"

namespace gpupool::engine::cuda {

// The place of an inner kernel's operand: `offset` bytes behind the begin of an
// input or output of the outer kernel, or of its scratch memory.
struct OperandPlace {
  enum class Kind { kInput, kOutput, kScratch };
  Kind kind = Kind::kInput;
  size_t index = 0;     // among the node's inputs or outputs
  uint64_t offset = 0;  // in bytes

  static OperandPlace Input(size_t index, uint64_t offset = 0) {
    return {Kind::kInput, index, offset};
  }
  static OperandPlace Output(size_t index, uint64_t offset = 0) {
    return {Kind::kOutput, index, offset};
  }
  static OperandPlace Scratch(uint64_t offset) {
    return {Kind::kScratch, 0, offset};
  }
};

// Returns the address of a place. Scratch memory begins where the workspace
// does.
std::byte* AddressOf(const OperandPlace& place, const KernelBuffers& buffers);

// Alignment in bytes that libraries want for workspaces.
inline constexpr uint64_t kWorkspaceAlignment = 256;

class KernelSequence : public Kernel {
 public:
  struct Step {
    std::unique_ptr<Kernel> kernel;
    std::vector<OperandPlace> inputs, outputs;
  };

  // The steps must not keep resident memory.
  KernelSequence(std::vector<Step> steps, uint64_t scratch_bytes);

  // Returns the scratch memory plus the largest workspace of a step.
  uint64_t workspace_bytes() const override;
  absl::Status Bind(const KernelBuffers& buffers) override;
  absl::Status Prepare() override;
  absl::Status Run() override;

 private:
  std::vector<Step> steps_;
  const uint64_t scratch_bytes_;  // aligned
  uint64_t shared_bytes_ = 0;
};

}  // namespace gpupool::engine::cuda
