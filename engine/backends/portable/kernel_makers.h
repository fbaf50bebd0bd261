// Kernels of every op out of functors that run on the host and on a GPU alike
// (launch.h). One maker per op family; a maker touches no tensor memory and
// gives a null kernel where it has none for the shapes or types at hand.
//
// Kernels of these makers only queue work on the context's stream and never
// look at tensor memory from the host: scalars such as learning rates are read
// by the functors. They may run inside a capture.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "engine/backends/portable/launch.h"
#include "engine/runtime/device_backend.h"

namespace gpupool::engine::portable {

using KernelOr = absl::StatusOr<std::unique_ptr<Kernel>>;

struct PortableContext {
  LaunchStream stream;
  // What the device runs at once; long sums are cut into enough parts for it.
  int64_t resident_threads = int64_t{128} << 10;
  // In the device's memory; whoever runs kernels reads it afterwards.
  DeviceError* error = nullptr;
};

// Types and shapes of a node's values, by position.
inline const Value& InputOf(const CompileRequest& request, size_t i) {
  return request.graph.value(request.node.inputs[i]);
}
inline const Value& OutputOf(const CompileRequest& request, size_t i) {
  return request.graph.value(request.node.outputs[i]);
}

// Chooses the family by the node's op: the op table's column `portable`.
//   UNIMPLEMENTED  no family takes the op with these types; names the layer
KernelOr MakePortableKernel(const CompileRequest& request,
                            const PortableContext& context);

// Unary, binary, where, cast, fused, activations and their gradients, scale
// and shift, dropout, random numbers.
KernelOr MakeElementwise(const CompileRequest& request,
                         const PortableContext& context);
// Reshape that is not a view, layout conversion, broadcast, transpose, slice,
// pad, concat and their gradients.
KernelOr MakeMovement(const CompileRequest& request,
                      const PortableContext& context);
// Gathers, scatters, their gradients, top k.
KernelOr MakeIndexing(const CompileRequest& request,
                      const PortableContext& context);
// Reductions over any axes, positions of extremes, running sums, column sums,
// global norm.
KernelOr MakeReduce(const CompileRequest& request,
                    const PortableContext& context);
// Matrix products, convolutions and attention without a library: one element
// of the result per call. Right for every type and shape, slow for large ones.
KernelOr MakeProduct(const CompileRequest& request,
                     const PortableContext& context);
// Pools, resize, local response normalisation and their gradients.
KernelOr MakeImage(const CompileRequest& request,
                   const PortableContext& context);
// Batch norm in all its forms, layer norm, softmax, log softmax.
KernelOr MakeNorm(const CompileRequest& request,
                  const PortableContext& context);
// Losses, their gradients, the count of right answers.
KernelOr MakeLoss(const CompileRequest& request,
                  const PortableContext& context);
// Optimizer steps.
KernelOr MakeOptimizer(const CompileRequest& request,
                       const PortableContext& context);
// Running averages of parameters.
KernelOr MakeAverage(const CompileRequest& request,
                     const PortableContext& context);

}  // namespace gpupool::engine::portable
