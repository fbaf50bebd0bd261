// Kernels of all-reduces over NCCL.
//
// A start copies its gradients into the flat on the compute stream and queues
// their mean on the communication stream; a wait makes the compute stream wait
// for that and copies the means to its outputs. Both only queue work and may
// run inside a capture.
//
// Thread-safety: the compute thread's. Kernels refer to this, which must
// outlive them.
#pragma once

#include <memory>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "engine/backends/cuda/nccl/nccl_group.h"
#include "engine/runtime/device_backend.h"

namespace gpupool::engine::cuda {

class NcclAllReduce {
 public:
  NcclAllReduce(const NcclFunctions& functions, const NcclGroup::Place& place)
      : functions_(functions), place_(place) {}

  // kAllReduceStart and kAllReduceWait. The first kernel for a collective lets
  // its ranks find each other. Without a collective there is a kernel too, for
  // plans; its Run says FAILED_PRECONDITION.
  //   INVALID_ARGUMENT  the node's ranks are not those of the collective, or a
  //                     wait's input is not what a start of its graph wrote
  absl::StatusOr<std::unique_ptr<Kernel>> MakeKernel(
      const CompileRequest& request);

  // Of the programs that sum over ranks; null while there is none.
  NcclGroup* group() const { return group_.lock().get(); }

 private:
  absl::StatusOr<std::shared_ptr<NcclGroup>> Join(
      const CompileRequest& request);

  const NcclFunctions functions_;
  const NcclGroup::Place place_;
  // Owned by the kernels: the next job is not asked about the ranks of the last
  // one. The collective whose ranks it has lives as long.
  std::weak_ptr<NcclGroup> group_;
  Collective* joined_ = nullptr;
  // The ends of sums, by the flats of the graph that was compiled last.
  const Graph* graph_ = nullptr;
  absl::flat_hash_map<int32_t, std::shared_ptr<Event>> sums_;
};

}  // namespace gpupool::engine::cuda
