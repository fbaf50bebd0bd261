// Kernels for the host's processor: oneDNN for products, convolutions, pools
// and batch norm, in float32 and where the processor can in bfloat16; own SIMD
// kernels for the rest of what matters in float32. Other 16-bit numbers are
// converted for those, and for everything else there are the reference kernels.
// Results are the same from run to run for the same number of threads.
//
// oneDNN keeps one team of threads per calling thread, so a process should
// have one compute thread; every back end and kernel belongs to it. The
// kernels refer to the back end, which must outlive them.
#pragma once

#include <memory>

#include "engine/runtime/device_backend.h"

namespace gpupool::engine {

class CpuContext;

class CpuBackend : public DeviceBackend {
 public:
  // `threads` >= 1. A plan depends on it, since kernels' scratch does: plan
  // with as many threads as will run.
  explicit CpuBackend(int threads);
  ~CpuBackend() override;

  absl::StatusOr<std::unique_ptr<Kernel>> Compile(
      const CompileRequest& request) override;
  // Sets the size of the calling thread's team, and that denormals are zero.
  void BeginRun() override;

 private:
  std::unique_ptr<CpuContext> context_;
};

// Whether the op has a kernel of its own for data of that type. Some shapes
// are excepted; what has none runs, slowly, on the reference kernel.
bool IsFastOnCpu(Op op, DType dtype);
// The same for a node of a graph.
bool IsFastOnCpu(const Graph& graph, const Node& node);

}  // namespace gpupool::engine
