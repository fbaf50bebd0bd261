// Kernels of all-reduces for devices whose memory is the host's: over the
// collective that the compile request names.
//
// A start copies its gradients into the flat and starts the sum of it; a wait
// waits for the sums of its flats, in their order, divides them by the ranks
// and writes the outputs. Without a collective there is a kernel too, for
// plans; its Run says FAILED_PRECONDITION.
//
// Other devices make kernels of their own: a start copies on the compute
// stream and sums on one for communication that waits for the copy, a wait
// makes the compute stream wait for the sum; both only queue work and may run
// inside a capture. All ranks compile the same nodes in the same order, so the
// first of these kernels may exchange an identifier over the collective.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "engine/graph/ops.h"
#include "engine/runtime/device_backend.h"

namespace gpupool::engine {

inline bool IsAllReduce(Op op) {
  return op == Op::kAllReduceStart || op == Op::kAllReduceWait;
}

// INVALID_ARGUMENT when a wait's input is not what a start of the same graph
// wrote, or the node's ranks are not those of the collective.
absl::StatusOr<std::unique_ptr<Kernel>> MakeAllReduce(
    const CompileRequest& request);

}  // namespace gpupool::engine
