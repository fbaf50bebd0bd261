#include "server/control/jobs/profile_requests.h"

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "engine/base/status_macros.h"
#include "gpupool/v1/job.pb.h"
#include "gpupool/worker/v1/worker.pb.h"
#include "server/control/calls/ask_worker.h"
#include "server/control/calls/context.h"
#include "server/control/calls/control_options.h"
#include "server/store/store.h"

namespace gpupool::server {
namespace {

absl::Status CheckRuns(const v1::Job& job) {
  if (job.state() == v1::QUEUED || job.state() == v1::BACKING_OFF) {
    return absl::FailedPreconditionError(
        absl::StrCat("job ", job.id(), " is ", v1::JobState_Name(job.state()),
                     " and can be profiled only while it runs; `gpupool why ",
                     job.id(), "` says what it waits for"));
  }
  if (job.state() != v1::RUNNING && job.state() != v1::STARTING) {
    return absl::FailedPreconditionError(
        absl::StrCat("job ", job.id(), " is ", v1::JobState_Name(job.state()),
                     " and can be profiled only while it runs"));
  }
  if (job.devices_size() > 1) {
    return absl::FailedPreconditionError(absl::StrCat(
        "job ", job.id(), " runs on ", job.devices_size(),
        " devices; only jobs on one device can be profiled: submit it with "
        "`devices: 1` for that"));
  }
  return absl::OkStatus();
}

// Returns the error for a job whose attempt is not on its worker.
absl::Status NotOnWorker(const Store& store, uint64_t id) {
  const absl::StatusOr<v1::Job> job = store.GetJob(id);
  if (!job.ok()) return job.status();
  const absl::Status runs = CheckRuns(*job);
  if (!runs.ok()) return runs;
  return absl::FailedPreconditionError(
      absl::StrCat("job ", id, " is ", v1::JobState_Name(job->state()),
                   ", and its attempt is just starting or ending; try again"));
}

}  // namespace

void ProfileJob(const ControlContext& context, uint64_t id, uint32_t steps,
                Callback<worker::v1::ProfileReply> callback) {
  const absl::StatusOr<v1::Job> job = context.store->GetJob(id);
  if (!job.ok()) return callback(job.status());
  const absl::Status runs = CheckRuns(*job);
  if (!runs.ok()) return callback(runs);
  worker::v1::ToWorker message;
  worker::v1::ProfileJob& profile = *message.mutable_profile_job();
  profile.set_job_id(id);
  profile.set_attempt(job->attempt());
  profile.set_steps(steps);
  const absl::Duration timeout = context.options.profile_timeout;
  AskWorker(context, {job->device(), std::move(message), timeout},
            [callback, id, steps, timeout, store = context.store](
                const absl::StatusOr<worker::v1::FromWorker>& reply) {
              if (reply.ok()) return callback(reply->profile_job());
              // The attempt has not reached the worker, or has left it.
              if (absl::IsNotFound(reply.status())) {
                return callback(NotOnWorker(*store, id));
              }
              if (!absl::IsDeadlineExceeded(reply.status())) {
                return callback(reply.status());
              }
              callback(absl::DeadlineExceededError(
                  absl::StrCat("job ", id, " did not make ", steps,
                               " steps in ", absl::FormatDuration(timeout),
                               "; it continues: profile fewer steps")));
            });
}

absl::StatusOr<v1::RecordedProfile> FindRecordedProfile(
    const ControlContext& context, uint64_t id, uint32_t cycle) {
  ASSIGN_OR_RETURN(const v1::Job job, context.store->GetJob(id));
  std::string cycles;
  for (const v1::RecordedProfile& profile : job.recorded_profiles()) {
    if (profile.cycle() == cycle) return profile;
    absl::StrAppend(&cycles, cycles.empty() ? "" : ", ", profile.cycle());
  }
  if (!cycles.empty()) {
    return absl::NotFoundError(absl::StrCat(
        "job ", id, " has no recorded profile ", cycle, "; it has ", cycles));
  }
  return absl::NotFoundError(absl::StrCat(
      "job ", id, " has no recorded profiles",
      job.spec().training().has_profile()
          ? " yet; `gpupool logs` says when there is one"
          : ", because its file has no training.profile; leave out "
            "--recorded to profile its next steps"));
}

}  // namespace gpupool::server
