#include "server/api/services/model_service.h"

#include <memory>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "gpupool/v1/limits.pb.h"
#include "server/api/inference/model_repository.h"
#include "server/api/rpc/event_writer.h"
#include "server/api/rpc/tenant_access.h"
#include "server/api/rpc/unary.h"
#include "server/api/rpc/visible_page.h"
#include "server/api/services/job_access.h"
#include "server/api/transfer/model_export.h"
#include "server/api/transfer/worker_file.h"
#include "server/api/validation/convert.h"
#include "server/api/validation/device_check.h"
#include "server/api/validation/job_spec_check.h"
#include "server/control/calls/context.h"
#include "server/control/jobs/admission.h"
#include "server/control/models/model_profiles.h"
#include "server/control/models/model_requests.h"
#include "server/control/records/rows.h"
#include "server/store/store.h"

namespace gpupool::server {
namespace {

absl::Status CheckVersionNumber(uint64_t version) {
  if (version == 0) return absl::OkStatus();  // the newest, or all
  return CheckId("version", version);
}

bool IsExportFormat(v1::ExportModelRequest::Format format) {
  return format == v1::ExportModelRequest::ONNX ||
         format == v1::ExportModelRequest::SAFETENSORS;
}

absl::Status CheckProfile(const v1::ProfileModelRequest& request) {
  if (request.requests() > v1::MAX_PROFILED_STEPS) {
    return absl::InvalidArgumentError(absl::StrCat(
        "requests is ", request.requests(), "; a profile has 1 to ",
        v1::MAX_PROFILED_STEPS, " requests (0 stands for ",
        v1::DEFAULT_PROFILED_STEPS, ")"));
  }
  if (request.rows() > v1::MAX_SERVED_ROWS) {
    return absl::InvalidArgumentError(absl::StrCat("rows is ", request.rows(),
                                                   "; a request has at most ",
                                                   v1::MAX_SERVED_ROWS));
  }
  return absl::OkStatus();
}

// A stream that ends at once with an error.
class RefuseExport : public grpc::ServerWriteReactor<v1::ExportModelResponse> {
 public:
  explicit RefuseExport(const absl::Status& status) { Finish(ToGrpc(status)); }
  void OnDone() override { delete this; }
};

}  // namespace

ModelUploadContext ModelService::UploadContext(
    grpc::CallbackServerContext* context) {
  const absl::StatusOr<Identity> caller = tenants_->CallerOf(*context);
  return {.control = control_,
          .blobs = blobs_,
          .file_limit_bytes = limits_.model_file_bytes,
          .access = tenants_,
          .caller = caller,
          .place = PlaceIn(&uploads_, context, caller)};
}

grpc::ServerReadReactor<v1::UploadModelRequest>* ModelService::UploadModel(
    grpc::CallbackServerContext* context, v1::ModelVersion* response) {
  return StartModelUpload(UploadContext(context), response);
}

grpc::ServerReadReactor<v1::UploadModelFileRequest>*
ModelService::UploadModelFile(grpc::CallbackServerContext* context,
                              v1::ModelFile* response) {
  return StartModelFileUpload(UploadContext(context), response);
}

grpc::ServerWriteReactor<v1::ExportModelResponse>* ModelService::ExportModel(
    grpc::CallbackServerContext* context,
    const v1::ExportModelRequest* request) {
  absl::Status checked = CheckName("model", request->model());
  if (checked.ok()) checked = CheckVersionNumber(request->version());
  if (checked.ok() && !IsExportFormat(request->format())) {
    checked = absl::InvalidArgumentError(absl::StrCat(
        "format is ", request->format(), "; it must be ONNX or SAFETENSORS"));
  }
  if (checked.ok()) checked = tenants_->CheckModel(*context, request->model());
  if (!checked.ok()) return new RefuseExport(checked);
  return ModelExport::Begin(
      std::make_shared<ModelExport>(control_, blobs_, *request),
      PlaceIn(&exports_, context, tenants_->CallerOf(*context)));
}

grpc::ServerWriteReactor<v1::ProfileModelResponse>* ModelService::ProfileModel(
    grpc::CallbackServerContext* context,
    const v1::ProfileModelRequest* request) {
  absl::Status checked = CheckName("model", request->model());
  if (checked.ok()) checked = CheckVersionNumber(request->version());
  if (checked.ok()) checked = CheckProfile(*request);
  if (checked.ok()) checked = tenants_->CheckModel(*context, request->model());
  if (!checked.ok()) return new Refuse<v1::ProfileModelResponse>(checked);
  v1::ProfileModelRequest wanted = *request;
  if (wanted.requests() == 0) wanted.set_requests(v1::DEFAULT_PROFILED_STEPS);
  using Profile = WorkerFile<v1::ProfileModelResponse>;
  return Profile::Begin(
      std::make_shared<Profile>(
          blobs_,
          [control = control_, wanted](Callback<Profile::Made> made) {
            server::ProfileModel(
                *control, wanted,
                [made](const absl::StatusOr<ModelProfile>& profile) {
                  if (!profile.ok()) return made(profile.status());
                  Profile::Made file{profile->sha256, profile->bytes};
                  file.first.set_requests(profile->requests);
                  file.first.set_version(profile->version);
                  made(std::move(file));
                });
          },
          "profile the model again"),
      PlaceIn(&profiles_, context, tenants_->CallerOf(*context)));
}

grpc::ServerUnaryReactor* ModelService::ListModels(
    grpc::CallbackServerContext* context, const v1::ListModelsRequest* request,
    v1::ListModelsResponse* response) {
  const absl::StatusOr<Identity> caller = tenants_->CallerOf(*context);
  if (!caller.ok()) return Reply(context, caller.status());
  if (!caller->is_bound()) {
    return Reply(context, control_->store->ListModels(*request), response);
  }
  return Reply(context,
               VisiblePage<v1::ListModelsResponse, v1::ListModelsRequest>(
                   *request,
                   [this](const auto& page) {
                     return control_->store->ListModels(page);
                   },
                   [](auto* page) { return page->mutable_models(); },
                   [&](const v1::Model& model) {
                     return TenantAccess::MayUse(*caller, model.versions(0));
                   }),
               response);
}

grpc::ServerUnaryReactor* ModelService::GetModel(
    grpc::CallbackServerContext* context, const v1::GetModelRequest* request,
    v1::Model* response) {
  absl::Status checked = CheckName("name", request->name());
  if (checked.ok()) checked = tenants_->CheckModel(*context, request->name());
  if (!checked.ok()) return Reply(context, checked);
  return Reply(context, control_->store->GetModel(request->name()), response);
}

grpc::ServerUnaryReactor* ModelService::ShareModel(
    grpc::CallbackServerContext* context, const v1::ShareModelRequest* request,
    v1::Model* response) {
  absl::Status checked = CheckName("name", request->name());
  if (checked.ok()) {
    checked = tenants_->CheckMayChange(*context, request->name());
  }
  if (!checked.ok()) return Reply(context, checked);
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  server::ShareModel(*control_, *request, ReplyLater(reactor, response));
  return reactor;
}

absl::Status ModelService::CheckPromotedName(
    const grpc::CallbackServerContext& context,
    const v1::PromoteCheckpointRequest& request) const {
  ASSIGN_OR_RETURN(const Identity caller, tenants_->CallerOf(context));
  if (!caller.is_bound()) return absl::OkStatus();
  if (!request.model().empty()) {
    return tenants_->CheckMayAdd(caller, request.model());
  }
  ASSIGN_OR_RETURN(const v1::Job job,
                   control_->store->GetJob(request.job_id()));
  return tenants_->CheckMayAdd(caller, PublishedModelName(job.spec()));
}

grpc::ServerUnaryReactor* ModelService::PromoteCheckpoint(
    grpc::CallbackServerContext* context,
    const v1::PromoteCheckpointRequest* request, v1::ModelVersion* response) {
  v1::PromoteCheckpointRequest promote = *request;
  absl::Status checked = CheckPromote(&promote);
  if (checked.ok()) checked = access_->CheckJob(*context, promote.job_id());
  if (checked.ok()) checked = CheckPromotedName(*context, promote);
  if (!checked.ok()) return Reply(context, checked);
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  server::PromoteCheckpoint(*control_, promote, ReplyLater(reactor, response));
  return reactor;
}

bool ModelService::MayBeInFolder(const v1::LoadVersionRequest& request) const {
  if (folders_ == nullptr) return false;
  const absl::Status stored =
      control_->store->GetVersion(request.model(), request.version()).status();
  return absl::IsNotFound(stored);
}

grpc::ServerUnaryReactor* ModelService::LoadVersion(
    grpc::CallbackServerContext* context, const v1::LoadVersionRequest* request,
    v1::ModelVersion* response) {
  absl::Status checked = CheckName("model", request->model());
  if (checked.ok()) checked = CheckVersionNumber(request->version());
  if (checked.ok()) checked = CheckVersionDevice(request->device());
  if (checked.ok()) {
    checked = tenants_->CheckMayChange(*context, request->model());
  }
  if (!checked.ok()) return Reply(context, checked);
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  const auto reply = ReplyLater(reactor, response);
  if (!MayBeInFolder(*request)) {
    server::LoadVersion(*control_, *request, reply);
    return reactor;
  }
  folders_->Load(request->model(), [this, wanted = *request,
                                    reply](const absl::Status& read) mutable {
    if (!read.ok() && !absl::IsNotFound(read)) return reply(read);
    // It is loaded where its folder wants it, and does not move.
    const auto row =
        control_->store->GetVersion(wanted.model(), wanted.version());
    if (row.ok() && wanted.device().empty()) {
      wanted.set_device(row->wanted_device());
    }
    server::LoadVersion(*control_, wanted, reply);
  });
  return reactor;
}

grpc::ServerUnaryReactor* ModelService::UnloadVersion(
    grpc::CallbackServerContext* context,
    const v1::UnloadVersionRequest* request, v1::ModelVersion* response) {
  absl::Status checked = CheckName("model", request->model());
  if (checked.ok()) checked = CheckVersionNumber(request->version());
  if (checked.ok()) {
    checked = tenants_->CheckMayChange(*context, request->model());
  }
  if (!checked.ok()) return Reply(context, checked);
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  server::UnloadVersion(*control_, *request, ReplyLater(reactor, response));
  return reactor;
}

grpc::ServerUnaryReactor* ModelService::DeleteVersion(
    grpc::CallbackServerContext* context,
    const v1::DeleteVersionRequest* request,
    v1::DeleteVersionResponse* response) {
  absl::Status checked = CheckName("model", request->model());
  if (checked.ok()) checked = CheckId("version", request->version());
  if (checked.ok()) {
    checked = tenants_->CheckMayChange(*context, request->model());
  }
  if (!checked.ok()) return Reply(context, checked);
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  server::DeleteVersion(*control_, *request, ReplyLater(reactor, response));
  return reactor;
}

grpc::ServerUnaryReactor* ModelService::PlanModel(
    grpc::CallbackServerContext* context, const v1::PlanModelRequest* request,
    v1::PlanModelResponse* response) {
  // Same default and limit as for serving.
  v1::ServingOptions serving;
  serving.set_max_batch_size(request->max_batch_size());
  serving.set_max_programs(request->max_programs());
  serving.set_precision(request->precision());
  absl::Status checked = CheckServingOptions("request", &serving);
  if (checked.ok()) checked = CheckModelSpec("spec", request->spec());
  if (!checked.ok()) return Reply(context, checked);
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  server::PlanModel(*control_, request->spec(), serving,
                    ReplyLater(reactor, response));
  return reactor;
}

}  // namespace gpupool::server
