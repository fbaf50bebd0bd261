// The ranks of a job on their GPUs: sums that run on the communication stream
// while the compute stream goes on.
//
// The communicator does not block: its calls return at once, and its state is
// asked for. A rank that is lost is noticed by Poll or by nobody coming within
// the time-out; then the communicator is aborted, which ends kernels that wait
// for the lost rank, and every later call fails.
//
// Thread-safety: the compute thread's. Streams, functions and the collective
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
    // For all ranks to come, and for a run to end once its sums wait.
    absl::Duration timeout = absl::Seconds(120);
  };

  // Returns when all ranks of `collective` have joined; the identifier of the
  // group travels over it, so all ranks call this at the same place in the
  // order of its calls. UNAVAILABLE when they do not come in time.
  static absl::StatusOr<std::unique_ptr<NcclGroup>> Join(
      const NcclFunctions& functions, Collective* collective,
      const Place& place);
  ~NcclGroup();
  NcclGroup(const NcclGroup&) = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;

  // Queues the mean over the ranks of `count` numbers, in place, behind what
  // the compute stream has now; `done` marks its end. May be captured.
  absl::Status QueueMean(float* values, size_t count, Event& begin,
                         Event& done);
  // Whether AwaitCompute would return at once: the compute stream is done, or a
  // rank was lost or has not come within the time-out, which runs from the
  // first question after the last AwaitCompute.
  bool ComputeIsDone();
  // Waits until the compute stream is done. UNAVAILABLE when a rank was lost.
  absl::Status AwaitCompute();

 private:
  NcclGroup(const NcclFunctions& functions, const Place& place)
      : functions_(functions), place_(place) {}
  // The communicator's state; aborts it when that is an error.
  absl::Status Poll();
  // Waits while a call goes on behind us.
  absl::Status AwaitCall();
  void Abort(const absl::Status& why);
  // Of the run that is asked about or waited for.
  absl::Time Deadline();

  const NcclFunctions functions_;
  const Place place_;
  ncclComm_t communicator_ = nullptr;
  absl::Status broken_;  // why the communicator was aborted
  std::optional<absl::Time> deadline_;
};

}  // namespace gpupool::engine::cuda
