// Copies that change a value's shape or layout.
#include <cstring>

#include "engine/backends/cpu/kernel/dnnl_kernel.h"
#include "engine/backends/cpu/kernel/kernels.h"
#include "engine/backends/function_kernel.h"

namespace gpupool::engine {

KernelOr MakeLayout(const CompileRequest& request, const CpuContext& context) {
  const Value& x = InputOf(request, 0);
  const Value& y = OutputOf(request, 0);
  if (request.node.op == Op::kReshape || x.layout == y.layout) {
    const uint64_t bytes = y.bytes();
    return MakeKernel([bytes](const KernelArguments& at) {
      std::memcpy(at.out<char>(0), at.in<char>(0), bytes);
    });
  }
  if (y.dtype != DType::kFloat32) return MakeMovement(request, context);
  const int threads = context.ThreadsForBytes(y.bytes());
  const ScopedThreads scope(threads);
  auto kernel = std::make_unique<DnnlKernel>(context, threads);
  kernel->AddReorder(When::kRun, {0, DescOf(x), Where::kInput, 0},
                     {0, DescOf(y), Where::kOutput, 0});
  return kernel;
}

}  // namespace gpupool::engine
