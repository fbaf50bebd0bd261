#include "server/api/services/job_service.h"

#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "gpupool/v1/limits.pb.h"
#include "gpupool/worker/v1/worker.pb.h"
#include "server/api/rpc/trace_headers.h"
#include "server/api/rpc/unary.h"
#include "server/api/services/job_access.h"
#include "server/api/transfer/worker_file.h"
#include "server/api/validation/convert.h"
#include "server/api/validation/job_spec_check.h"
#include "server/api/watch/watch_job.h"
#include "server/control/calls/context.h"
#include "server/control/jobs/admission.h"
#include "server/control/jobs/job_requests.h"
#include "server/control/jobs/profile_requests.h"

namespace gpupool::server {
namespace {

constexpr uint32_t kDefaultProfiledSteps = v1::DEFAULT_PROFILED_STEPS;
constexpr uint32_t kMaxProfiledSteps = v1::MAX_PROFILED_STEPS;

absl::Status CheckProfileRequest(const v1::ProfileJobRequest& request) {
  RETURN_IF_ERROR(CheckId("id", request.id()));
  if (request.recorded() > 0 && request.steps() > 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "recorded is ", request.recorded(), " and steps is ", request.steps(),
        "; a recorded profile has its own steps: leave steps out"));
  }
  if (request.steps() <= kMaxProfiledSteps) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "steps is ", request.steps(), "; a profile has 1 to ", kMaxProfiledSteps,
      " steps (0 stands for ", kDefaultProfiledSteps, ")"));
}

using JobProfile = WorkerFile<v1::ProfileJobResponse>;

// Answers with a profile that the job has recorded.
void AskForRecorded(const ControlContext& control, uint64_t id, uint32_t cycle,
                    const Callback<JobProfile::Made>& made) {
  const absl::StatusOr<v1::RecordedProfile> profile =
      FindRecordedProfile(control, id, cycle);
  if (!profile.ok()) return made(profile.status());
  JobProfile::Made file{profile->sha256(), profile->bytes()};
  file.first.set_steps(profile->steps());
  file.kept = true;
  made(std::move(file));
}

// Has the next steps profiled, and answers with the trace.
void AskForNextSteps(const ControlContext& control, uint64_t id, uint32_t steps,
                     const Callback<JobProfile::Made>& made) {
  server::ProfileJob(
      control, id, steps == 0 ? kDefaultProfiledSteps : steps,
      [made](const absl::StatusOr<worker::v1::ProfileReply>& reply) {
        if (!reply.ok()) return made(reply.status());
        JobProfile::Made file{reply->sha256(), reply->bytes()};
        file.first.set_steps(reply->steps());
        made(std::move(file));
      });
}

}  // namespace

SubmissionTracePtr JobService::BeginTrace(
    const grpc::CallbackServerContext& context,
    absl::string_view method) const {
  if (control_->tracer == nullptr) return nullptr;
  std::string joined;
  return SubmissionTrace::Begin(
      control_->tracer, TraceHeadersOf(context.client_metadata(), &joined),
      method);
}

grpc::ServerUnaryReactor* JobService::SubmitJob(
    grpc::CallbackServerContext* context, const v1::SubmitJobRequest* request,
    v1::Job* response) {
  const SubmissionTracePtr trace = BeginTrace(*context, "SubmitJob");
  v1::SubmitJobRequest submit = *request;
  absl::Status checked = CheckRequestId(submit.request_id());
  if (checked.ok() && submit.spec().has_array()) {
    checked = absl::InvalidArgumentError(
        "the spec is that of an array of jobs; call SubmitArray");
  }
  if (checked.ok()) {
    checked = access_->CheckTenantOf(*context, submit.mutable_spec());
  }
  if (checked.ok()) checked = CheckJobSpec(submit.mutable_spec());
  if (checked.ok()) {
    checked = access_->CheckPrerequisites(*context, submit.spec());
  }
  if (checked.ok()) checked = access_->CheckNames(*context, submit.spec());
  if (!checked.ok()) {
    if (trace != nullptr) trace->End(checked, 0);
    return Reply(context, checked);
  }
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  server::SubmitJob(*control_, submit,
                    EndTraceIn<v1::Job>(trace, ReplyLater(reactor, response)),
                    trace);
  return reactor;
}

grpc::ServerUnaryReactor* JobService::GetJob(
    grpc::CallbackServerContext* context, const v1::GetJobRequest* request,
    v1::Job* response) {
  absl::Status checked = CheckId("id", request->id());
  if (checked.ok()) checked = access_->CheckJob(*context, request->id());
  if (!checked.ok()) return Reply(context, checked);
  return Reply(context, server::GetJob(*control_, request->id()), response);
}

grpc::ServerUnaryReactor* JobService::ListJobs(
    grpc::CallbackServerContext* context, const v1::ListJobsRequest* request,
    v1::ListJobsResponse* response) {
  absl::Status checked;
  if (!request->tenant().empty()) {
    checked = CheckName("tenant", request->tenant());
  }
  if (checked.ok() && !request->name().empty()) {
    checked = CheckName("name", request->name());
  }
  if (checked.ok() && request->states_size() > v1::JobState_ARRAYSIZE) {
    checked = absl::InvalidArgumentError(
        "states has more entries than there are states");
  }
  v1::ListJobsRequest filtered = *request;
  if (checked.ok()) {
    checked = access_->CheckFilter(*context, filtered.mutable_tenant());
  }
  if (!checked.ok()) return Reply(context, checked);
  return Reply(context, server::ListJobs(*control_, filtered), response);
}

template <typename Response>
grpc::ServerUnaryReactor* JobService::AskById(
    grpc::CallbackServerContext* context, uint64_t id, OfControl<Response> ask,
    Response* response) {
  absl::Status checked = CheckId("id", id);
  if (checked.ok()) checked = access_->CheckJob(*context, id);
  if (!checked.ok()) return Reply(context, checked);
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  ask(*control_, id, ReplyLater(reactor, response));
  return reactor;
}

grpc::ServerUnaryReactor* JobService::CancelJob(
    grpc::CallbackServerContext* context, const v1::CancelJobRequest* request,
    v1::Job* response) {
  return AskById(context, request->id(), &server::CancelJob, response);
}

grpc::ServerUnaryReactor* JobService::HoldJob(
    grpc::CallbackServerContext* context, const v1::HoldJobRequest* request,
    v1::Job* response) {
  return AskById(context, request->id(), &server::HoldJob, response);
}

grpc::ServerUnaryReactor* JobService::ReleaseJob(
    grpc::CallbackServerContext* context, const v1::ReleaseJobRequest* request,
    v1::Job* response) {
  return AskById(context, request->id(), &server::ReleaseJob, response);
}

grpc::ServerUnaryReactor* JobService::RequeueJob(
    grpc::CallbackServerContext* context, const v1::RequeueJobRequest* request,
    v1::Job* response) {
  return AskById(context, request->id(), &server::RequeueJob, response);
}

grpc::ServerUnaryReactor* JobService::ExplainJob(
    grpc::CallbackServerContext* context, const v1::ExplainJobRequest* request,
    v1::JobExplanation* response) {
  return AskById(context, request->id(), &server::ExplainJob, response);
}

grpc::ServerWriteReactor<v1::JobEvent>* JobService::WatchJob(
    grpc::CallbackServerContext* context, const v1::WatchJobRequest* request) {
  const absl::Status checked = access_->CheckJob(*context, request->id());
  if (!checked.ok()) return new Refuse<v1::JobEvent>(checked);
  return WatchJobStream::Begin(
      std::make_shared<WatchJobStream>(control_, *request),
      PlaceIn(&watches_, context, access_->CallerOf(*context)));
}

grpc::ServerWriteReactor<v1::ProfileJobResponse>* JobService::ProfileJob(
    grpc::CallbackServerContext* context,
    const v1::ProfileJobRequest* request) {
  absl::Status checked = CheckProfileRequest(*request);
  if (checked.ok()) checked = access_->CheckJob(*context, request->id());
  if (!checked.ok()) return new Refuse<v1::ProfileJobResponse>(checked);
  return JobProfile::Begin(
      std::make_shared<JobProfile>(
          blobs_,
          [control = control_, id = request->id(), steps = request->steps(),
           recorded = request->recorded()](Callback<JobProfile::Made> made) {
            if (recorded > 0) {
              AskForRecorded(*control, id, recorded, made);
            } else {
              AskForNextSteps(*control, id, steps, made);
            }
          },
          "profile the job again"),
      PlaceIn(&profiles_, context, access_->CallerOf(*context)));
}

grpc::ServerUnaryReactor* JobService::PlanJob(
    grpc::CallbackServerContext* context, const v1::PlanJobRequest* request,
    v1::PlanJobResponse* response) {
  v1::PlanJobRequest planned = *request;
  v1::JobSpec& spec = *planned.mutable_spec();
  const absl::StatusOr<Identity> caller = access_->CallerOf(*context);
  absl::Status checked = caller.status();
  if (checked.ok()) checked = access_->CheckTenantOf(*context, &spec);
  if (!checked.ok()) return Reply(context, checked);
  if (spec.has_array()) {
    auto tasks = CheckArraySpec(&spec);
    checked = tasks.status();
    if (checked.ok()) spec = tasks->front().spec;
  } else {
    checked = CheckJobSpec(&spec);
  }
  if (checked.ok()) checked = access_->CheckPrerequisites(*context, spec);
  if (!checked.ok()) return Reply(context, checked);
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  server::PlanJob(*control_, planned, JobAccess::DatasetsOf(*caller),
                  ReplyLater(reactor, response));
  return reactor;
}

}  // namespace gpupool::server
