#include "server/api/services/dataset_service.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/api/rpc/unary.h"
#include "server/api/rpc/upload_reactor.h"
#include "server/api/transfer/dataset_upload.h"
#include "server/api/validation/convert.h"
#include "server/control/calls/context.h"
#include "server/control/jobs/admission.h"
#include "server/control/models/dataset_requests.h"
#include "server/control/records/rows.h"
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
  Upload(const ControlContext* control, const BlobStore* blobs,
         uint64_t limit_bytes, v1::Dataset* response)
      : control_(control), upload_(blobs, limit_bytes), response_(response) {}

 private:
  bool Take(const v1::UploadDatasetRequest& message) override {
    const absl::Status taken = upload_.Take(message);
    if (!taken.ok()) End(taken);
    return taken.ok() && !(message.has_header() && AnswerFromName());
  }

  // Answers from the name, before the bytes are sent, if a dataset has it. The
  // client then need not send a large file in vain.
  bool AnswerFromName() {
    absl::StatusOr<v1::Dataset> known =
        FindDataset(*control_->store, upload_.header().name());
    if (!known.ok()) return false;
    if (SameContent(*known, DatasetOf(upload_.header()))) {
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
  DatasetUpload upload_;
  v1::Dataset* const response_;
};

}  // namespace

grpc::ServerReadReactor<v1::UploadDatasetRequest>*
DatasetService::UploadDataset(grpc::CallbackServerContext*,
                              v1::Dataset* response) {
  return Upload::Begin(std::make_shared<Upload>(
                           control_, blobs_, limits_.dataset_bytes, response),
                       &uploads_);
}

grpc::ServerUnaryReactor* DatasetService::ListDatasets(
    grpc::CallbackServerContext* context,
    const v1::ListDatasetsRequest* request,
    v1::ListDatasetsResponse* response) {
  return Reply(context, control_->store->ListDatasets(*request), response);
}

grpc::ServerUnaryReactor* DatasetService::GetDataset(
    grpc::CallbackServerContext* context, const v1::GetDatasetRequest* request,
    v1::Dataset* response) {
  const absl::Status checked = CheckName("name", request->name());
  if (!checked.ok()) return Reply(context, checked);
  return Reply(context, FindDataset(*control_->store, request->name()),
               response);
}

grpc::ServerUnaryReactor* DatasetService::DeleteDataset(
    grpc::CallbackServerContext* context,
    const v1::DeleteDatasetRequest* request,
    v1::DeleteDatasetResponse* response) {
  const absl::Status checked = CheckName("name", request->name());
  if (!checked.ok()) return Reply(context, checked);
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  server::DeleteDataset(*control_, request->name(),
                        ReplyLater(reactor, response));
  return reactor;
}

}  // namespace gpupool::server
