#include "server/api/services/dataset_service.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/api/rpc/tenant_access.h"
#include "server/api/rpc/unary.h"
#include "server/api/rpc/upload_reactor.h"
#include "server/api/rpc/visible_page.h"
#include "server/api/transfer/dataset_upload.h"
#include "server/api/validation/convert.h"
#include "server/control/calls/context.h"
#include "server/control/jobs/admission.h"
#include "server/control/models/dataset_requests.h"
#include "server/control/records/rows.h"
#include "server/control/records/taken_names.h"
#include "server/control/records/tenant_use.h"
#include "server/control/upkeep/tenant_quota.h"
#include "server/store/store.h"

namespace gpupool::server {
namespace {

// Returns the dataset as which the upload will be stored.
v1::Dataset DatasetOf(const v1::UploadDatasetRequest::Header& header) {
  v1::Dataset dataset;
  *dataset.mutable_layout() = header.layout();
  *dataset.mutable_files() = header.files();
  return dataset;
}

class Upload : public UploadReactor<v1::UploadDatasetRequest> {
 public:
  struct Needs {
    const ControlContext* control = nullptr;
    const BlobStore* blobs = nullptr;
    uint64_t limit_bytes = 0;
    absl::StatusOr<Identity> caller;
  };

  Upload(const Needs& needs, v1::Dataset* response)
      : control_(needs.control),
        caller_(needs.caller),
        upload_(needs.blobs, needs.limit_bytes,
                caller_.ok() ? caller_->tenant : std::string()),
        response_(response) {}

 private:
  bool Take(const v1::UploadDatasetRequest& message) override {
    absl::Status taken = caller_.status();
    if (taken.ok() && message.has_header()) taken = CheckRoom(message.header());
    if (taken.ok()) taken = upload_.Take(message);
    if (!taken.ok()) End(taken);
    return taken.ok() && !(message.has_header() && AnswerFromName());
  }

  // Returns OK if the tenant may store the files. A name that a dataset has is
  // answered without them.
  absl::Status CheckRoom(const v1::UploadDatasetRequest::Header& header) const {
    if (control_->store->GetDataset(header.name()).ok()) {
      return absl::OkStatus();
    }
    UploadKeys keys;
    for (const v1::UploadPart& part : header.parts()) {
      keys.push_back(TenantUploadKey(caller_->tenant, part.upload_key()));
    }
    return CheckUploadRoom(*control_, caller_->tenant,
                           BytesOf(DatasetOf(header)), keys);
  }

  // Answers from the name, before the bytes are sent, if a dataset has it. The
  // client then need not send a large file in vain.
  bool AnswerFromName() {
    absl::StatusOr<v1::Dataset> known =
        FindDataset(*control_->store, upload_.header().name());
    if (!known.ok()) return false;
    if (!TenantAccess::MayUse(*caller_, *known)) {
      End(DatasetNameTaken(upload_.header().name()));
    } else if (SameContent(*known, DatasetOf(upload_.header()))) {
      *response_ = *std::move(known);
      upload_.ForgetAfter(absl::OkStatus());
      End(absl::OkStatus());
    } else {
      End(absl::AlreadyExistsError(absl::StrCat(
          "dataset \"", upload_.header().name(),
          "\" exists with other content; choose another name, or delete it "
          "first")));
    }
    return true;
  }

  void Complete() override {
    absl::StatusOr<v1::Dataset> dataset = upload_.Finish();
    if (!dataset.ok()) return End(dataset.status());
    server::RegisterDataset(*control_, *dataset,
                            [this](absl::StatusOr<v1::Dataset> result) {
                              if (result.ok()) *response_ = *result;
                              upload_.ForgetAfter(result.status());
                              End(result.status());
                            });
  }

  const ControlContext* const control_;
  const absl::StatusOr<Identity> caller_;
  DatasetUpload upload_;
  v1::Dataset* const response_;
};

}  // namespace

grpc::ServerReadReactor<v1::UploadDatasetRequest>*
DatasetService::UploadDataset(grpc::CallbackServerContext* context,
                              v1::Dataset* response) {
  const absl::StatusOr<Identity> caller = tenants_->CallerOf(*context);
  return Upload::Begin(std::make_shared<Upload>(
                           Upload::Needs{.control = control_,
                                         .blobs = blobs_,
                                         .limit_bytes = limits_.dataset_bytes,
                                         .caller = caller},
                           response),
                       PlaceIn(&uploads_, context, caller));
}

grpc::ServerUnaryReactor* DatasetService::ListDatasets(
    grpc::CallbackServerContext* context,
    const v1::ListDatasetsRequest* request,
    v1::ListDatasetsResponse* response) {
  const absl::StatusOr<Identity> caller = tenants_->CallerOf(*context);
  if (!caller.ok()) return Reply(context, caller.status());
  if (!caller->is_bound()) {
    return Reply(context, control_->store->ListDatasets(*request), response);
  }
  return Reply(context,
               VisiblePage<v1::ListDatasetsResponse, v1::ListDatasetsRequest>(
                   *request,
                   [this](const auto& page) {
                     return control_->store->ListDatasets(page);
                   },
                   [](auto* page) { return page->mutable_datasets(); },
                   [&](const v1::Dataset& dataset) {
                     return TenantAccess::MayUse(*caller, dataset);
                   }),
               response);
}

grpc::ServerUnaryReactor* DatasetService::GetDataset(
    grpc::CallbackServerContext* context, const v1::GetDatasetRequest* request,
    v1::Dataset* response) {
  absl::Status checked = CheckName("name", request->name());
  if (checked.ok()) checked = tenants_->CheckDataset(*context, request->name());
  if (!checked.ok()) return Reply(context, checked);
  return Reply(context, FindDataset(*control_->store, request->name()),
               response);
}

grpc::ServerUnaryReactor* DatasetService::DeleteDataset(
    grpc::CallbackServerContext* context,
    const v1::DeleteDatasetRequest* request,
    v1::DeleteDatasetResponse* response) {
  absl::Status checked = CheckName("name", request->name());
  if (checked.ok()) checked = tenants_->CheckDataset(*context, request->name());
  if (!checked.ok()) return Reply(context, checked);
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  server::DeleteDataset(*control_, request->name(),
                        ReplyLater(reactor, response));
  return reactor;
}

}  // namespace gpupool::server
