// Makes kernels of all-reduces over NCCL.
//
// - A start copies its gradients into the flat buffer on the compute stream and
//   queues their mean on the communication stream.
// - A wait makes the compute stream wait for the mean and copies it to the
//   outputs.
//
// Both only queue work and may run inside a capture.
//
// Thread-safety: compute thread only. Kernels refer to this object, which must
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

  // Makes kernels of kAllReduceStart and kAllReduceWait. The ranks of a
  // collective find each other when its first kernel is made. Without a
  // collective, kernels can be made for plans only: their Run returns
  // FAILED_PRECONDITION.
  //   INVALID_ARGUMENT  the node's ranks are not those of the collective, or a
  //                     wait's input was not written by a start of its graph
  absl::StatusOr<std::unique_ptr<Kernel>> MakeKernel(
      const CompileRequest& request);

  // Returns the group of the programs that sum over ranks, or null.
  NcclGroup* group() const { return group_.lock().get(); }

 private:
  absl::StatusOr<std::shared_ptr<NcclGroup>> Join(
      const CompileRequest& request);

  const NcclFunctions functions_;
  const NcclGroup::Place place_;
  // The kernels own the group, so that the next job does not get the ranks of
  // the last one. The group's collective lives as long.
  std::weak_ptr<NcclGroup> group_;
  Collective* joined_ = nullptr;
  // Events at the ends of sums, by flat buffer of the graph that was compiled
  // last.
  const Graph* graph_ = nullptr;
  absl::flat_hash_map<int32_t, std::shared_ptr<Event>> sums_;
};

}  // namespace gpupool::engine::cuda
