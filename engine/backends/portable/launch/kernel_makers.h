// Makers of kernels from functors that run on the host and on a GPU alike
// (launch.h). Each op family has one maker. A maker touches no tensor memory,
// and returns a null kernel for shapes or types that it does not support.
//
// The kernels only queue work on the context's stream. They never read tensor
// memory from the host: functors read scalars such as learning rates. So the
// kernels may run inside a capture.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "engine/backends/portable/launch/launch.h"
#include "engine/runtime/device_backend.h"

namespace gpupool::engine::portable {

using KernelOr = absl::StatusOr<std::unique_ptr<Kernel>>;

struct PortableContext {
  LaunchStream stream;
  // Threads that the device runs at once. Long sums are cut into about as many
  // parts.
  int64_t resident_threads = int64_t{128} << 10;
  // In the device's memory. Whoever runs kernels reads it afterwards.
  DeviceError* error = nullptr;
};

// Return a node's input or output by position, for its type and shape.
inline const Value& InputOf(const CompileRequest& request, size_t i) {
  return request.graph.value(request.node.inputs[i]);
}
inline const Value& OutputOf(const CompileRequest& request, size_t i) {
  return request.graph.value(request.node.outputs[i]);
}

// Makes a node's kernel by the family of its op: the op table's column
// `portable`.
//   UNIMPLEMENTED  no family takes the op with these types; names the layer
KernelOr MakePortableKernel(const CompileRequest& request,
                            const PortableContext& context);

// Makes unary, binary, where, cast, fused ops, activations and their gradients,
// scale and shift, dropout and random numbers.
KernelOr MakeElementwise(const CompileRequest& request,
                         const PortableContext& context);
// Makes reshape that is not a view, layout conversion, broadcast, transpose,
// slice, pad, concat and their gradients.
KernelOr MakeMovement(const CompileRequest& request,
                      const PortableContext& context);
// Makes gathers, scatters, their gradients and top k.
KernelOr MakeIndexing(const CompileRequest& request,
                      const PortableContext& context);
// Makes reductions over any axes, positions of extremes, running sums, column
// sums and the global norm.
KernelOr MakeReduce(const CompileRequest& request,
                    const PortableContext& context);
// Makes matrix products, convolutions and attention without a library, one
// element of the result per call. Takes every type and shape, but is slow for
// large ones.
KernelOr MakeProduct(const CompileRequest& request,
                     const PortableContext& context);
// Makes pools, resize, local response normalisation and their gradients.
KernelOr MakeImage(const CompileRequest& request,
                   const PortableContext& context);
// Makes batch norm in all its forms, layer norm, softmax and log softmax.
KernelOr MakeNorm(const CompileRequest& request,
                  const PortableContext& context);
// Makes losses, their gradients and the count of correct answers.
KernelOr MakeLoss(const CompileRequest& request,
                  const PortableContext& context);
// Makes optimizer steps.
KernelOr MakeOptimizer(const CompileRequest& request,
                       const PortableContext& context);
// Makes running averages of parameters.
KernelOr MakeAverage(const CompileRequest& request,
                     const PortableContext& context);

}  // namespace gpupool::engine::portable
