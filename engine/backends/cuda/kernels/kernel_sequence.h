// A kernel that runs others in turn, with scratch memory between them.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/runtime/device_backend.h"

namespace gpupool::engine::cuda {

// Where an operand of a kernel inside another lies: so many bytes behind the
// begin of an input or output of the outer one, or of its scratch memory.
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

// The address of a place. Scratch memory begins at the workspace.
std::byte* AddressOf(const OperandPlace& place, const KernelBuffers& buffers);

// Libraries want workspaces to begin at multiples of this.
inline constexpr uint64_t kWorkspaceAlignment = 256;

class KernelSequence : public Kernel {
 public:
  struct Step {
    std::unique_ptr<Kernel> kernel;
    std::vector<OperandPlace> inputs, outputs;
  };

  // None of the steps may keep resident memory.
  KernelSequence(std::vector<Step> steps, uint64_t scratch_bytes);

  // Scratch memory, then what the hungriest step needs.
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
