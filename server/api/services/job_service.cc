#include "server/api/services/job_service.h"

#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gpupool/v1/limits.pb.h"
#include "gpupool/worker/v1/worker.pb.h"
#include "server/api/rpc/trace_headers.h"
#include "server/api/rpc/unary.h"
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

absl::Status CheckProfiledSteps(uint32_t steps) {
  if (steps <= kMaxProfiledSteps) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "steps is ", steps, "; a profile has 1 to ", kMaxProfiledSteps,
      " steps (0 stands for ", kDefaultProfiledSteps, ")"));
}

}  // namespace

SubmissionTracePtr JobService::BeginTrace(
    const grpc::CallbackServerContext& context,
    absl::string_view method) const {
  if (control_->tracer == nullptr) return nullptr;
  return SubmissionTrace::Begin(control_->tracer, TraceHeadersOf(context),
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
  if (checked.ok()) checked = CheckJobSpec(submit.mutable_spec());
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
  const absl::Status checked = CheckId("id", request->id());
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
  if (!checked.ok()) return Reply(context, checked);
  return Reply(context, server::ListJobs(*control_, *request), response);
}

template <typename Response>
grpc::ServerUnaryReactor* JobService::AskById(
    grpc::CallbackServerContext* context, uint64_t id, OfControl<Response> ask,
    Response* response) {
  const absl::Status checked = CheckId("id", id);
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
    grpc::CallbackServerContext*, const v1::WatchJobRequest* request) {
  return WatchJobStream::Begin(
      std::make_shared<WatchJobStream>(control_, *request), &watches_);
}

grpc::ServerWriteReactor<v1::ProfileJobResponse>* JobService::ProfileJob(
    grpc::CallbackServerContext*, const v1::ProfileJobRequest* request) {
  absl::Status checked = CheckId("id", request->id());
  if (checked.ok()) checked = CheckProfiledSteps(request->steps());
  if (!checked.ok()) return new Refuse<v1::ProfileJobResponse>(checked);
  using Profile = WorkerFile<v1::ProfileJobResponse>;
  const uint32_t steps =
      request->steps() == 0 ? kDefaultProfiledSteps : request->steps();
  return Profile::Begin(
      std::make_shared<Profile>(
          blobs_,
          [control = control_, id = request->id(),
           steps](Callback<Profile::Made> made) {
            server::ProfileJob(
                *control, id, steps,
                [made](const absl::StatusOr<worker::v1::ProfileReply>& reply) {
                  if (!reply.ok()) return made(reply.status());
                  Profile::Made file{reply->sha256(), reply->bytes()};
                  file.first.set_steps(reply->steps());
                  made(std::move(file));
                });
          },
          "profile the job again"),
      &profiles_);
}

grpc::ServerUnaryReactor* JobService::PlanJob(
    grpc::CallbackServerContext* context, const v1::PlanJobRequest* request,
    v1::PlanJobResponse* response) {
  v1::PlanJobRequest planned = *request;
  v1::JobSpec& spec = *planned.mutable_spec();
  absl::Status checked;
  if (spec.has_array()) {
    auto tasks = CheckArraySpec(&spec);
    checked = tasks.status();
    if (checked.ok()) spec = tasks->front().spec;
  } else {
    checked = CheckJobSpec(&spec);
  }
  if (!checked.ok()) return Reply(context, checked);
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  server::PlanJob(*control_, planned, ReplyLater(reactor, response));
  return reactor;
}

}  // namespace gpupool::server
