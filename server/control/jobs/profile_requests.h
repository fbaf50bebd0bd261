// Requests to profile a running training, and for profiles that were recorded.
//
// Thread-safety: any thread; see context.h.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "server/control/calls/callback.h"

namespace gpupool::v1 {
class RecordedProfile;
}  // namespace gpupool::v1

namespace gpupool::worker::v1 {
class ProfileReply;
}  // namespace gpupool::worker::v1

namespace gpupool::server {

struct ControlContext;

// Has the worker of job `id` profile the job's next `steps` steps. `callback`
// gets the trace, which is a blob, when they are made, or when the job has
// ended after some of them. The store does not change.
//   NotFound            there is no such job
//   FailedPrecondition  it does not run, ends before the first step is made, is
//                       being profiled already, or runs on several devices
//   InvalidArgument     the trace would be too large
//   DeadlineExceeded    the steps took longer than options.profile_timeout
//   Unavailable         its worker is not connected
void ProfileJob(const ControlContext& context, uint64_t id, uint32_t steps,
                Callback<worker::v1::ProfileReply> callback);

// Returns the profile that job `id` has recorded in cycle `cycle` of its
// schedule. The trace is a blob, which is kept. NotFound names the job, or the
// cycles that there are.
absl::StatusOr<v1::RecordedProfile> FindRecordedProfile(
    const ControlContext& context, uint64_t id, uint32_t cycle);

}  // namespace gpupool::server
