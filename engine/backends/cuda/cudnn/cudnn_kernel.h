// A kernel that runs a plan of cuDNN. Other kernels may run before and after
// it, for what the library does not compute.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/backends/cuda/cudnn/cudnn_plan.h"
#include "engine/backends/cuda/kernels/kernel_sequence.h"
#include "engine/runtime/device_backend.h"

namespace gpupool::engine::cuda {

class CudnnKernel : public Kernel {
 public:
  struct Tensor {
    CudnnGraph::Id id;
    OperandPlace place;
  };
  struct Number {
    CudnnGraph::Id id;
    float value;
  };
  // A kernel that runs before or after the plan.
  using Companion = KernelSequence::Step;
  struct Parts {
    std::vector<Tensor> tensors;
    std::vector<Number> numbers;
    std::vector<Companion> before, after;
    uint64_t scratch_bytes = 0;
  };

  // Chooses a plan for `graph`. With `benchmark`, several plans are measured
  // when the kernel is prepared for the first time, and the fastest is kept.
  // UNIMPLEMENTED when cuDNN has no engine. The library must outlive the
  // kernel.
  static absl::StatusOr<std::unique_ptr<Kernel>> Make(
      const CudnnLibrary* library, CudnnGraph& graph, Parts parts,
      const CudnnPlanOptions& options, bool benchmark);

  uint64_t workspace_bytes() const override;
  absl::Status Bind(const KernelBuffers& buffers) override;
  absl::Status Prepare() override;
  absl::Status Run() override;

 private:
  CudnnKernel(const CudnnLibrary* library, std::string key, Parts parts)
      : library_(library), key_(std::move(key)), parts_(std::move(parts)) {}
  absl::Status BindCompanion(Companion& companion);

  const CudnnLibrary* const library_;
  const std::string key_;
  Parts parts_;
  std::vector<CudnnPlan> plans_;  // the first one is used
  bool measures_ = false;
  // The largest workspace of all plans and companions. They share it, since
  // they run one after another.
  uint64_t shared_bytes_ = 0;
  KernelBuffers buffers_;
};

// Returns the options of plans for a node whose operands have `type`.
CudnnPlanOptions PlanOptionsOf(const CompileRequest& request, DType type);

}  // namespace gpupool::engine::cuda
