// Kernels of all-reduces for devices that use the host's memory. They sum over
// the collective that the compile request names.
//
// - A start copies its gradients into its flat buffer and starts the sum.
// - A wait waits for the sums of its flat buffers in their order, divides them
//   by the number of ranks and writes the outputs.
//
// Without a collective, kernels can be made for plans only: their Run returns
// FAILED_PRECONDITION.
//
// Other devices make their own kernels. A start copies on the compute stream
// and sums on the communication stream, which waits for the copy. A wait makes
// the compute stream wait for the sum. Both only queue work and may run inside
// a capture. All ranks compile the same nodes in the same order, so the first
// of these kernels may exchange an identifier over the collective.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "engine/graph/ops.h"
#include "engine/runtime/device_backend.h"

namespace gpupool::engine {

inline bool IsAllReduce(Op op) {
  return op == Op::kAllReduceStart || op == Op::kAllReduceWait;
}

// Makes the kernel of an all-reduce node. INVALID_ARGUMENT when a wait's input
// was not written by a start of the same graph, or when the node's ranks are
// not those of the collective.
absl::StatusOr<std::unique_ptr<Kernel>> MakeAllReduce(
    const CompileRequest& request);

}  // namespace gpupool::engine
