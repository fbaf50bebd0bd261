// One maker of kernels per op family: the op table's column `cpu`. All are
// called by CpuBackend::Compile with float32 data where an op is not mere
// movement; they touch no tensor memory. A maker gives a null kernel where it
// has none for the shapes or types at hand: the reference kernel takes over.
//
// Buffers are aligned to kAlignmentBytes and padded to a multiple of it, so
// element-wise kernels may read and write whole vectors up to that padding.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "engine/backends/cpu/context.h"
#include "engine/runtime/device_backend.h"

namespace gpupool::engine {

using KernelOr = absl::StatusOr<std::unique_ptr<Kernel>>;

// Types and shapes of a node's values, by position.
inline const Value& InputOf(const CompileRequest& request, size_t i) {
  return request.graph.value(request.node.inputs[i]);
}
inline const Value& OutputOf(const CompileRequest& request, size_t i) {
  return request.graph.value(request.node.outputs[i]);
}

// What a node reads and writes, operand by operand: what a choice of threads
// by bytes goes by.
inline uint64_t MovedBytes(const CompileRequest& request) {
  uint64_t bytes = 0;
  for (const ValueIds* ids : {&request.node.inputs, &request.node.outputs}) {
    for (const ValueId id : *ids) bytes += request.graph.value(id).bytes();
  }
  return bytes;
}

KernelOr MakeMatMul(const CompileRequest& request, const CpuContext& context);
KernelOr MakeConv2d(const CompileRequest& request, const CpuContext& context);
KernelOr MakeConv2dInputGrad(const CompileRequest& request,
                             const CpuContext& context);
KernelOr MakeConv2dWeightGrad(const CompileRequest& request,
                              const CpuContext& context);
// Max and average pools and their gradients.
KernelOr MakePool(const CompileRequest& request, const CpuContext& context);
// Global average pool and its gradient.
KernelOr MakeGlobalPool(const CompileRequest& request,
                        const CpuContext& context);
// Resize and its gradient.
KernelOr MakeResize(const CompileRequest& request, const CpuContext& context);
// Training, inference, gradient, running statistics and folding.
KernelOr MakeBatchNorm(const CompileRequest& request,
                       const CpuContext& context);
KernelOr MakeLayerNorm(const CompileRequest& request,
                       const CpuContext& context);
KernelOr MakeSoftmax(const CompileRequest& request, const CpuContext& context);
KernelOr MakeScaleShift(const CompileRequest& request,
                        const CpuContext& context);
KernelOr MakeCast(const CompileRequest& request, const CpuContext& context);
// Reductions over any axes, positions of extremes, running sums.
KernelOr MakeReduce(const CompileRequest& request, const CpuContext& context);
// Transpose, slice, pad, concat, broadcast, layout conversion and gradients of
// slice and pad, for any element type.
KernelOr MakeMovement(const CompileRequest& request, const CpuContext& context);
// Gather, for any element type, and its gradient.
KernelOr MakeGather(const CompileRequest& request, const CpuContext& context);
KernelOr MakeBatchMatMul(const CompileRequest& request,
                         const CpuContext& context);
KernelOr MakeAttention(const CompileRequest& request,
                       const CpuContext& context);
KernelOr MakeAttentionGrad(const CompileRequest& request,
                           const CpuContext& context);
KernelOr MakeDropout(const CompileRequest& request, const CpuContext& context);
// Losses, their gradients, and the count of right answers.
KernelOr MakeLoss(const CompileRequest& request, const CpuContext& context);
// Column sum and clip coefficient.
KernelOr MakeReduction(const CompileRequest& request,
                       const CpuContext& context);
KernelOr MakeOptimizer(const CompileRequest& request,
                       const CpuContext& context);
// Running averages of parameters.
KernelOr MakeAverage(const CompileRequest& request, const CpuContext& context);
// Reshape that is not a view, and layout conversion.
KernelOr MakeLayout(const CompileRequest& request, const CpuContext& context);

}  // namespace gpupool::engine
