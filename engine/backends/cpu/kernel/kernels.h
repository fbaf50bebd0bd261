// One maker of kernels per op family, for CpuBackend::Compile: the op table's
// column `cpu`. Data is float32, except for ops that only move elements. Makers
// touch no tensor memory. A maker returns a null kernel for shapes or types
// that it does not support: then the reference kernel runs.
//
// Buffers are aligned to kAlignmentBytes and padded to a multiple of it, so
// elementwise kernels may read and write whole vectors up to the padding's end.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "engine/backends/cpu/kernel/context.h"
#include "engine/runtime/device_backend.h"

namespace gpupool::engine {

using KernelOr = absl::StatusOr<std::unique_ptr<Kernel>>;

// Return a node's input or output by position, for its type and shape.
inline const Value& InputOf(const CompileRequest& request, size_t i) {
  return request.graph.value(request.node.inputs[i]);
}
inline const Value& OutputOf(const CompileRequest& request, size_t i) {
  return request.graph.value(request.node.outputs[i]);
}

// Returns the bytes that a node reads and writes, from which kernels choose
// their number of threads.
inline uint64_t MovedBytes(const CompileRequest& request) {
  uint64_t bytes = 0;
  for (const ValueIds* ids : {&request.node.inputs, &request.node.outputs}) {
    for (const ValueId id : *ids) bytes += request.graph.value(id).bytes();
  }
  return bytes;
}

KernelOr MakeMatMul(const CompileRequest& request, const CpuContext& context);
KernelOr MakeConv2d(const CompileRequest& request, const CpuContext& context);
// Null where the processor lacks VNNI instructions, since without them oneDNN's
// sums of int8 products saturate, and for weights or factors that change.
KernelOr MakeQuantizedConv2d(const CompileRequest& request,
                             const CpuContext& context);
KernelOr MakeConv2dInputGrad(const CompileRequest& request,
                             const CpuContext& context);
KernelOr MakeConv2dWeightGrad(const CompileRequest& request,
                              const CpuContext& context);
// Makes max and average pools and their gradients.
KernelOr MakePool(const CompileRequest& request, const CpuContext& context);
// Makes the global average pool and its gradient.
KernelOr MakeGlobalPool(const CompileRequest& request,
                        const CpuContext& context);
// Makes resize and its gradient.
KernelOr MakeResize(const CompileRequest& request, const CpuContext& context);
// Makes batch norm: training, inference, gradient, running statistics, folding.
KernelOr MakeBatchNorm(const CompileRequest& request,
                       const CpuContext& context);
KernelOr MakeLayerNorm(const CompileRequest& request,
                       const CpuContext& context);
KernelOr MakeSoftmax(const CompileRequest& request, const CpuContext& context);
KernelOr MakeScaleShift(const CompileRequest& request,
                        const CpuContext& context);
KernelOr MakeCast(const CompileRequest& request, const CpuContext& context);
// Makes conversions to and from codes of 8 bits, and sums of such codes.
KernelOr MakeCodes(const CompileRequest& request, const CpuContext& context);
// Makes reductions over any axes, positions of extremes and running sums.
KernelOr MakeReduce(const CompileRequest& request, const CpuContext& context);
// Makes transpose, slice, pad, concat, broadcast, layout conversion and the
// gradients of slice and pad, for any element type.
KernelOr MakeMovement(const CompileRequest& request, const CpuContext& context);
// Makes gather for any element type, and its gradient.
KernelOr MakeGather(const CompileRequest& request, const CpuContext& context);
KernelOr MakeTreeWalk(const CompileRequest& request, const CpuContext& context);
KernelOr MakeBlockedMatMul(const CompileRequest& request,
                           const CpuContext& context);
KernelOr MakeBatchMatMul(const CompileRequest& request,
                         const CpuContext& context);
KernelOr MakeAttention(const CompileRequest& request,
                       const CpuContext& context);
KernelOr MakeAttentionGrad(const CompileRequest& request,
                           const CpuContext& context);
KernelOr MakeDropout(const CompileRequest& request, const CpuContext& context);
// Makes losses, their gradients and the count of correct answers.
KernelOr MakeLoss(const CompileRequest& request, const CpuContext& context);
// Makes the column sum and the clip coefficient.
KernelOr MakeReduction(const CompileRequest& request,
                       const CpuContext& context);
KernelOr MakeOptimizer(const CompileRequest& request,
                       const CpuContext& context);
// Makes running averages of parameters.
KernelOr MakeAverage(const CompileRequest& request, const CpuContext& context);
// Makes layout conversion, and reshape where it is not a view.
KernelOr MakeLayout(const CompileRequest& request, const CpuContext& context);

}  // namespace gpupool::engine
