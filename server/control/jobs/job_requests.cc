#include "server/control/jobs/job_requests.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "engine/base/status_macros.h"
#include "gpupool/v1/device.pb.h"
#include "gpupool/v1/job.pb.h"
#include "scheduler/explain/explain.h"
#include "scheduler/state/device.h"
#include "scheduler/state/state.h"
#include "scheduler/step/event.h"
#include "server/control/calls/context.h"
#include "server/control/calls/enqueue.h"
#include "server/control/devices/device_board.h"
#include "server/control/jobs/admission.h"
#include "server/control/jobs/array_spec.h"
#include "server/control/records/ledger.h"
#include "server/control/records/rows.h"
#include "server/control/records/transaction.h"
#include "server/store/store.h"

namespace gpupool::server {
namespace {

using JobCallback = Callback<v1::Job>;

bool HasEnded(const v1::Job& job) {
  return scheduler::IsEnded(static_cast<scheduler::JobState>(job.state()));
}

// Applies `Asked` to a job that has not ended. A request without effect is no
// error.
template <typename Asked>
void AskOfJob(const ControlContext& context, uint64_t id, const char* what,
              JobCallback callback) {
  Enqueue<v1::Job>(
      context, callback,
      [&context, id, what, callback](Transaction& transaction) {
        const JobRow* row = transaction.ledger().FindJob(id);
        if (row == nullptr || HasEnded(row->job)) {
          const auto job = context.store->GetJob(id);
          if (!job.ok()) return callback(job.status());
          return callback(absl::FailedPreconditionError(absl::StrCat(
              "job ", id, " has ended (", v1::JobState_Name(job->state()),
              ") and cannot be ", what, "; submit it again")));
        }
        transaction.Apply(Asked{scheduler::JobId(id)});
        AnswerWithJob(context, transaction, id, callback);
      });
}

std::string NotAllSucceed(uint64_t id, uint64_t tasks) {
  return absl::StrCat("after_ok names array ", id, ", of which ", tasks,
                      tasks == 1 ? " task has" : " tasks have",
                      " failed or been cancelled; name another one, or use "
                      "after_any");
}

// Checks that the array exists and, for after_ok, that none of its tasks has
// failed. Tasks are counted in the store and in this turn.
absl::Status CheckArray(Transaction& transaction, uint64_t id,
                        bool must_succeed) {
  uint64_t lost = 0;
  const auto array = transaction.store().GetArray(id);
  if (array.ok()) {
    for (const auto& count : array->counts()) {
      const bool is_lost =
          count.state() == v1::FAILED || count.state() == v1::CANCELLED;
      if (is_lost) lost += count.tasks();
    }
  } else if (!transaction.ledger().state.arrays().contains(
                 scheduler::JobId(id))) {
    return absl::NotFoundError(absl::StrCat(
        must_succeed ? "after_ok" : "after_any", " names ", id,
        ", but there is no job or array ", id, "; see `gpupool jobs`"));
  }
  // Tasks that ended in this very turn are found by the array's id.
  const auto& jobs = transaction.ledger().jobs;
  for (auto it = jobs.upper_bound(id);
       it != jobs.end() && it->first <= id + kMaxArrayTasks; ++it) {
    const v1::Job& task = it->second.job;
    if (task.array_id() != id) continue;
    lost += HasEnded(task) && task.state() != v1::SUCCEEDED;
  }
  if (!must_succeed || lost == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(NotAllSucceed(id, lost));
}

// Checks a job or array that the new job waits for.
absl::Status CheckPrerequisite(Transaction& transaction, uint64_t id,
                               bool must_succeed) {
  const JobRow* row = transaction.ledger().FindJob(id);
  v1::Job job;
  if (row != nullptr) {
    job = row->job;
  } else {
    auto ended = transaction.store().GetJob(id);
    if (absl::IsNotFound(ended.status())) {
      return CheckArray(transaction, id, must_succeed);
    }
    ASSIGN_OR_RETURN(job, std::move(ended));
  }
  if (!must_succeed || !HasEnded(job) || job.state() == v1::SUCCEEDED) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "after_ok names job ", id, ", which has ended as ",
      v1::JobState_Name(job.state()), "; name another job, or use after_any"));
}

// Checks that a time, if given, has not passed.
absl::Status CheckIsToCome(const char* field, bool has,
                           const google::protobuf::Timestamp& time,
                           absl::Time now) {
  if (!has || FromTimestamp(time) > now) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(field, " is ",
                   absl::FormatTime(absl::RFC3339_sec, FromTimestamp(time),
                                    absl::UTCTimeZone()),
                   ", which has passed"));
}

// Returns what the board knows about a device that the scheduler may not use.
std::string Obstacle(const v1::Device& device, std::string otherwise) {
  const char* what = nullptr;
  if (device.state() == v1::DEVICE_QUARANTINED) what = "is in quarantine";
  if (device.state() == v1::DEVICE_LOST) what = "has lost its worker";
  if (what == nullptr) return otherwise;
  return absl::StrCat(what, ": ", device.state_reason());
}

// Returns the explanation as the API's message. Devices that the scheduler may
// not use get the board's reason.
v1::JobExplanation ToProto(const ControlContext& context,
                           const scheduler::State& state,
                           const scheduler::Job& job,
                           const scheduler::Explanation& explained) {
  v1::JobExplanation proto;
  proto.set_id(job.id.value());
  proto.set_state(static_cast<v1::JobState>(job.state));
  proto.set_waits_for(explained.waits_for);
  proto.set_position(explained.position);
  for (scheduler::JobId id : explained.ahead) proto.add_ahead(id.value());
  proto.set_needed_bytes(job.bytes);
  proto.set_needed_devices(job.device_count);
  for (const auto& view : explained.devices) {
    const scheduler::Device& device = state.devices().at(view.device);
    v1::JobExplanation::Device& out = *proto.add_devices();
    out.set_name(device.name);
    out.set_free_bytes(device.free_bytes());
    out.set_limit_bytes(device.limit_bytes);
    out.set_missing_bytes(view.missing_bytes);
    out.set_obstacle(Obstacle(context.board->Find(device.name), view.obstacle));
    for (scheduler::JobId id : device.jobs) out.add_job_ids(id.value());
  }
  for (const auto& view : explained.running) {
    v1::JobExplanation::Running& out = *proto.add_running();
    out.set_id(view.job.value());
    out.set_gives_way(view.gives_way);
    out.set_reason(view.reason);
    if (view.left) out.set_seconds_left(absl::ToDoubleSeconds(*view.left));
  }
  for (const std::string& change : explained.changes) {
    proto.add_changes(change);
  }
  return proto;
}

}  // namespace

absl::StatusOr<v1::Job> GetJob(const ControlContext& context, uint64_t id) {
  auto job = context.store->GetJob(id);
  if (!job.ok()) return job;
  return WithReason(*context.board, *std::move(job));
}

absl::StatusOr<v1::ListJobsResponse> ListJobs(
    const ControlContext& context, const v1::ListJobsRequest& request) {
  auto response = context.store->ListJobs(request);
  if (!response.ok()) return response;
  for (v1::Job& job : *response->mutable_jobs()) {
    job = WithReason(*context.board, std::move(job));
  }
  return response;
}

absl::StatusOr<std::vector<v1::JobEvent>> ReadEvents(
    const ControlContext& context, uint64_t job, EventPage page) {
  auto events = context.store->ReadEvents(job, page.after, page.limit);
  if (!events.ok() || !events->empty()) return events;
  // Tells an unknown job from one without further events.
  auto row = context.store->GetJob(job);
  if (!row.ok()) return row.status();
  return events;
}

void HoldJob(const ControlContext& context, uint64_t id, JobCallback callback) {
  AskOfJob<scheduler::JobHoldRequested>(context, id, "held",
                                        std::move(callback));
}

void ReleaseJob(const ControlContext& context, uint64_t id,
                JobCallback callback) {
  AskOfJob<scheduler::JobReleaseRequested>(context, id, "released",
                                           std::move(callback));
}

void RequeueJob(const ControlContext& context, uint64_t id,
                JobCallback callback) {
  AskOfJob<scheduler::JobRequeueRequested>(context, id, "queued again",
                                           std::move(callback));
}

void ExplainJob(const ControlContext& context, uint64_t id,
                Callback<v1::JobExplanation> callback) {
  Enqueue<v1::JobExplanation>(
      context, callback, [&context, id, callback](Transaction& transaction) {
        // Answer with what is on disk.
        transaction.AfterCommit(
            [&context, id, callback, now = transaction.now(),
             &state = std::as_const(transaction.ledger().state)] {
              const scheduler::Job* job = state.FindJob(scheduler::JobId(id));
              if (job != nullptr) {
                return callback(
                    ToProto(context, state, *job, Explain(state, *job, now)));
              }
              const auto ended = context.store->GetJob(id);
              if (!ended.ok()) return callback(ended.status());
              v1::JobExplanation explanation;
              explanation.set_id(id);
              explanation.set_state(ended->state());
              callback(explanation);
            });
      });
}

absl::Status CheckStartRules(Transaction& transaction,
                             const v1::JobSpec& spec) {
  for (uint64_t id : spec.after_ok()) {
    RETURN_IF_ERROR(CheckPrerequisite(transaction, id, true));
  }
  for (uint64_t id : spec.after_any()) {
    RETURN_IF_ERROR(CheckPrerequisite(transaction, id, false));
  }
  const absl::Time now = transaction.now();
  RETURN_IF_ERROR(CheckIsToCome("start_before", spec.has_start_before(),
                                spec.start_before(), now));
  return CheckIsToCome("deadline", spec.has_deadline(), spec.deadline(), now);
}

scheduler::JobSubmitted EventOf(const v1::Job& job, Ledger& ledger) {
  scheduler::JobSubmitted submitted = ToEvent(job);
  // Leaves out what has ended. CheckStartRules has refused jobs that can no
  // longer succeed.
  const auto waits = [&](uint64_t id) {
    const JobRow* row = ledger.FindJob(id);
    return (row != nullptr && !HasEnded(row->job)) ||
           ledger.state.arrays().contains(scheduler::JobId(id));
  };
  for (uint64_t id : job.spec().after_ok()) {
    if (waits(id)) submitted.after_ok.insert(scheduler::JobId(id));
  }
  for (uint64_t id : job.spec().after_any()) {
    if (waits(id)) submitted.after_any.insert(scheduler::JobId(id));
  }
  return submitted;
}

}  // namespace gpupool::server
