// The ranks of a job on their GPUs. Sums run on the communication stream while
// the compute stream goes on.
//
// The communicator does not block: its calls return at once, and Poll asks for
// its state. A rank counts as lost when Poll finds an error or when the
// time-out expires. Then the communicator is aborted, which ends kernels that
// wait for the lost rank, and every later call fails.
//
// Thread-safety: compute thread only. Streams, functions and the collective
// must outlive the group.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "engine/backends/cuda/nccl/nccl_functions.h"
#include "engine/backends/cuda/streams/streams.h"
#include "engine/collective/collective.h"

namespace gpupool::engine::cuda {

class NcclGroup {
 public:
  struct Place {
    const Stream* compute = nullptr;
    const Stream* communication = nullptr;
    // Limit for all ranks to join, and for a run to end while its sums wait.
    absl::Duration timeout = absl::Seconds(120);
  };

  // Blocks until all ranks of `collective` have joined. The group's identifier
  // travels over the collective, so all ranks must call this at the same place
  // in the order of its calls. UNAVAILABLE when a rank does not join in time.
  static absl::StatusOr<std::unique_ptr<NcclGroup>> Join(
      const NcclFunctions& functions, Collective* collective,
      const Place& place);
  ~NcclGroup();
  NcclGroup(const NcclGroup&) = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;

  // Queues the mean of `count` numbers over the ranks, in place, after the
  // present work of the compute stream. `done` marks its end. May be captured.
  absl::Status QueueMean(float* values, size_t count, Event& begin,
                         Event& done);
  // Returns whether AwaitCompute would return at once: the compute stream is
  // done, or a rank is lost. The time-out runs from the first call after the
  // last AwaitCompute.
  bool ComputeIsDone();
  // Blocks until the compute stream is done. UNAVAILABLE when a rank is lost.
  absl::Status AwaitCompute();

 private:
  NcclGroup(const NcclFunctions& functions, const Place& place)
      : functions_(functions), place_(place) {}
  // Returns the communicator's state. Aborts the communicator on an error.
  absl::Status Poll();
  // Blocks while a call continues in the background.
  absl::Status AwaitCall();
  void Abort(const absl::Status& why);
  // Returns when the current run times out.
  absl::Time Deadline();

  const NcclFunctions functions_;
  const Place place_;
  ncclComm_t communicator_ = nullptr;
  absl::Status broken_;  // why the communicator was aborted, else OK
  std::optional<absl::Time> deadline_;
};

}  // namespace gpupool::engine::cuda
