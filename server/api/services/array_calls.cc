// The calls of JobService for arrays of jobs.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "server/api/rpc/event_writer.h"
#include "server/api/rpc/unary.h"
#include "server/api/services/job_access.h"
#include "server/api/services/job_service.h"
#include "server/api/validation/convert.h"
#include "server/api/validation/job_spec_check.h"
#include "server/api/watch/watch_array.h"
#include "server/control/calls/context.h"
#include "server/control/jobs/array_admission.h"
#include "server/control/jobs/submission_trace.h"
#include "server/control/records/rows.h"
#include "server/store/store.h"

namespace gpupool::server {
namespace {

// Checks the request and fills in the tasks.
absl::Status CheckTasks(SubmittedArray* array) {
  RETURN_IF_ERROR(CheckRequestId(array->request.request_id()));
  ASSIGN_OR_RETURN(array->tasks, CheckArraySpec(array->request.mutable_spec()));
  return absl::OkStatus();
}

// Checks the names that the tasks use, each set of names once.
absl::Status CheckNamesOf(const JobAccess& access,
                          const grpc::CallbackServerContext& context,
                          const std::vector<ArrayTask>& tasks) {
  absl::flat_hash_set<std::string> checked;
  for (const ArrayTask& task : tasks) {
    const v1::DataSpec& data = task.spec.data();
    const std::string names = absl::StrCat(
        data.dataset(), "\n", data.validation(), "\n",
        task.spec.publish().on_success(), "\n", PublishedModelName(task.spec));
    if (!checked.insert(names).second) continue;
    RETURN_IF_ERROR(access.CheckNames(context, task.spec));
  }
  return absl::OkStatus();
}

}  // namespace

grpc::ServerUnaryReactor* JobService::SubmitArray(
    grpc::CallbackServerContext* context, const v1::SubmitJobRequest* request,
    v1::JobArray* response) {
  const SubmissionTracePtr trace = BeginTrace(*context, "SubmitArray");
  SubmittedArray array{.request = *request, .tasks = {}, .trace = trace};
  absl::Status checked =
      access_->CheckTenantOf(*context, array.request.mutable_spec());
  if (checked.ok()) checked = CheckTasks(&array);
  if (checked.ok()) {
    checked = access_->CheckPrerequisites(*context, array.request.spec());
  }
  if (checked.ok()) checked = CheckNamesOf(*access_, *context, array.tasks);
  if (!checked.ok()) {
    if (trace != nullptr) trace->End(checked, 0);
    return Reply(context, checked);
  }
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  server::SubmitArray(
      *control_, std::move(array),
      EndTraceIn<v1::JobArray>(trace, ReplyLater(reactor, response)));
  return reactor;
}

grpc::ServerUnaryReactor* JobService::GetArray(
    grpc::CallbackServerContext* context, const v1::GetJobRequest* request,
    v1::JobArray* response) {
  absl::Status checked = CheckId("id", request->id());
  if (checked.ok()) checked = access_->CheckArray(*context, request->id());
  if (!checked.ok()) return Reply(context, checked);
  return Reply(context, control_->store->GetArray(request->id()), response);
}

grpc::ServerUnaryReactor* JobService::ListArrays(
    grpc::CallbackServerContext* context, const v1::ListArraysRequest* request,
    v1::ListArraysResponse* response) {
  v1::ListArraysRequest filtered = *request;
  const absl::Status checked =
      access_->CheckFilter(*context, filtered.mutable_tenant());
  if (!checked.ok()) return Reply(context, checked);
  return Reply(context, control_->store->ListArrays(filtered), response);
}

grpc::ServerUnaryReactor* JobService::AskOfArray(
    grpc::CallbackServerContext* context, uint64_t id,
    scheduler::ArrayRequest what, v1::JobArray* response) {
  absl::Status checked = CheckId("id", id);
  if (checked.ok()) checked = access_->CheckArray(*context, id);
  if (!checked.ok()) return Reply(context, checked);
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  server::AskOfArray(*control_, id, what, ReplyLater(reactor, response));
  return reactor;
}

grpc::ServerUnaryReactor* JobService::CancelArray(
    grpc::CallbackServerContext* context, const v1::CancelJobRequest* request,
    v1::JobArray* response) {
  return AskOfArray(context, request->id(), scheduler::ArrayRequest::kCancel,
                    response);
}

grpc::ServerUnaryReactor* JobService::HoldArray(
    grpc::CallbackServerContext* context, const v1::HoldJobRequest* request,
    v1::JobArray* response) {
  return AskOfArray(context, request->id(), scheduler::ArrayRequest::kHold,
                    response);
}

grpc::ServerUnaryReactor* JobService::ReleaseArray(
    grpc::CallbackServerContext* context, const v1::ReleaseJobRequest* request,
    v1::JobArray* response) {
  return AskOfArray(context, request->id(), scheduler::ArrayRequest::kRelease,
                    response);
}

grpc::ServerUnaryReactor* JobService::RequeueArray(
    grpc::CallbackServerContext* context, const v1::RequeueJobRequest* request,
    v1::JobArray* response) {
  return AskOfArray(context, request->id(), scheduler::ArrayRequest::kRequeue,
                    response);
}

grpc::ServerWriteReactor<v1::JobArray>* JobService::WatchArray(
    grpc::CallbackServerContext* context, const v1::GetJobRequest* request) {
  const absl::Status checked = access_->CheckArray(*context, request->id());
  if (!checked.ok()) return new Refuse<v1::JobArray>(checked);
  return WatchArrayStream::Begin(
      std::make_shared<WatchArrayStream>(control_, request->id()),
      PlaceIn(&watches_, context, access_->CallerOf(*context)));
}

}  // namespace gpupool::server
