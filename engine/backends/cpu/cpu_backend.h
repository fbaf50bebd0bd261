// Kernels for the host's processor:
// - oneDNN for products, convolutions, pools and batch norm, in float32 and, if
//   the processor can, in bfloat16.
// - Our own SIMD kernels for the other common ops in float32.
// - The same kernels between conversions for other 16-bit types.
// - The reference kernels for everything else.
//
// Results are the same from run to run for the same number of threads.
//
// oneDNN keeps a team of threads for each thread that calls it. So a process
// should have one compute thread, which owns every back end and kernel. The
// back end must outlive its kernels.
#pragma once

#include <memory>

#include "engine/runtime/device_backend.h"

namespace gpupool::engine {

class CpuContext;

class CpuBackend : public DeviceBackend {
 public:
  // `threads` must be at least 1. Plan with as many threads as will run: the
  // scratch memory of kernels depends on the number.
  explicit CpuBackend(int threads);
  ~CpuBackend() override;

  absl::StatusOr<std::unique_ptr<Kernel>> Compile(
      const CompileRequest& request) override;
  // Returns whether the processor has VNNI instructions and oneDNN uses them.
  bool PrefersIntegerProducts() const override;
  // Sets the size of the calling thread's team and flushes denormals to zero.
  void BeginRun() override;

 private:
  std::unique_ptr<CpuContext> context_;
};

// Returns whether the op has a fast kernel for data of that type. A few shapes
// are excepted. An op without one runs on the slow reference kernel.
bool IsFastOnCpu(Op op, DType dtype);
// Returns the same for a node of a graph.
bool IsFastOnCpu(const Graph& graph, const Node& node);

}  // namespace gpupool::engine
