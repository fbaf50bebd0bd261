#include "engine/backends/cuda/nccl/nccl_group.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "engine/backends/cuda/driver/cuda_status.h"
#include "engine/base/status_macros.h"

namespace gpupool::engine::cuda {
namespace {

constexpr absl::Duration kPause = absl::Microseconds(50);

}  // namespace

absl::StatusOr<std::unique_ptr<NcclGroup>> NcclGroup::Join(
    const NcclFunctions& functions, Collective* collective,
    const Place& place) {
  std::unique_ptr<NcclGroup> group(new NcclGroup(functions, place));
  ncclUniqueId id;
  std::memset(&id, 0, sizeof(id));
  absl::Status made;
  if (collective->rank() == 0) {
    made = functions.StatusOf(functions.make_id(&id), "naming a group");
  }
  // Broadcast even after an error, since the other ranks wait for it.
  RETURN_IF_ERROR(collective->Broadcast(
      {reinterpret_cast<std::byte*>(&id), sizeof(id)}, 0));
  RETURN_IF_ERROR(made);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  RETURN_IF_ERROR(functions.StatusOf(
      functions.join(&group->communicator_, collective->size(), id,
                     collective->rank(), &config),
      absl::StrCat("joining as rank ", collective->rank())));
  RETURN_IF_ERROR(group->AwaitCall());
  return group;
}

NcclGroup::~NcclGroup() {
  // Abort never blocks, but ncclCommDestroy may when a rank is gone.
  if (communicator_ != nullptr) functions_.abort(communicator_);
}

void NcclGroup::Abort(const absl::Status& why) {
  if (communicator_ == nullptr) return;
  functions_.abort(communicator_);
  communicator_ = nullptr;
  broken_ = why;
}

absl::Status NcclGroup::Poll() {
  if (communicator_ == nullptr) return broken_;
  ncclResult_t state = ncclSuccess;
  absl::Status status = functions_.StatusOf(
      functions_.state(communicator_, &state), "asking for a group's state");
  if (status.ok()) {
    status = functions_.StatusOf(state, "a sum over the ranks");
  }
  if (!status.ok()) Abort(status);
  return status;
}

absl::Status NcclGroup::AwaitCall() {
  const absl::Time deadline = absl::Now() + place_.timeout;
  for (;;) {
    ncclResult_t state = ncclSuccess;
    RETURN_IF_ERROR(functions_.StatusOf(functions_.state(communicator_, &state),
                                        "asking for a group's state"));
    // A call in progress is no error, so Poll alone does not tell when it ends.
    RETURN_IF_ERROR(Poll());
    if (state != ncclInProgress) return absl::OkStatus();
    if (absl::Now() > deadline) {
      Abort(absl::UnavailableError(
          absl::StrCat("the ranks did not come together in NCCL within ",
                       absl::FormatDuration(place_.timeout))));
      return broken_;
    }
    absl::SleepFor(kPause);
  }
}

absl::Status NcclGroup::QueueMean(float* values, size_t count, Event& begin,
                                  Event& done) {
  if (communicator_ == nullptr) return broken_;
  // The sum waits for the gradients, and the compute stream goes on.
  RETURN_IF_ERROR(begin.Record(*place_.compute));
  RETURN_IF_ERROR(begin.Await(*place_.communication));
  RETURN_IF_ERROR(functions_.StatusOf(
      functions_.all_reduce(values, values, count, ncclFloat32, ncclAvg,
                            communicator_, place_.communication->handle()),
      absl::StrCat("summing ", count, " numbers over the ranks")));
  RETURN_IF_ERROR(AwaitCall());
  return done.Record(*place_.communication);
}

absl::Time NcclGroup::Deadline() {
  if (!deadline_.has_value()) deadline_ = absl::Now() + place_.timeout;
  return *deadline_;
}

bool NcclGroup::ComputeIsDone() {
  return !place_.compute->IsBusy() || !Poll().ok() || absl::Now() > Deadline();
}

absl::Status NcclGroup::AwaitCompute() {
  const absl::Time deadline = Deadline();
  deadline_.reset();
  for (;;) {
    // Checked first: aborting also ends the stream's work.
    if (communicator_ == nullptr) return broken_;
    if (!place_.compute->IsBusy()) {
      return StatusOf(cudaStreamQuery(place_.compute->handle()),
                      "waiting for the GPU");
    }
    RETURN_IF_ERROR(Poll());
    if (absl::Now() > deadline) {
      Abort(absl::UnavailableError(
          absl::StrCat("another rank took no part in a sum within ",
                       absl::FormatDuration(place_.timeout))));
      return broken_;
    }
    absl::SleepFor(kPause);
  }
}

}  // namespace gpupool::engine::cuda
