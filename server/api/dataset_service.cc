#include "server/api/dataset_service.h"

#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/api/convert.h"
#include "server/api/dataset_upload.h"
#include "server/api/unary.h"

namespace gpupool::server {
namespace {

bool SameFiles(const v1::Dataset& a,
               const v1::UploadDatasetRequest::Header& b) {
  if (a.files_size() != b.files_size() ||
      a.layout().SerializeAsString() != b.layout().SerializeAsString()) {
    return false;
  }
  for (int i = 0; i < a.files_size(); ++i) {
    if (a.files(i).sha256() != b.files(i).sha256() ||
        a.files(i).role() != b.files(i).role()) {
      return false;
    }
  }
  return true;
}

// One upload. gRPC calls the On functions one at a time but OnCancel and Stop;
// owns itself from Begin until gRPC is done with it.
class Upload : public grpc::ServerReadReactor<v1::UploadDatasetRequest>,
               public OpenStream {
 public:
  Upload(ControlLoop* control, const BlobStore* blobs, uint64_t limit_bytes,
         v1::Dataset* response)
      : control_(control), upload_(blobs, limit_bytes), response_(response) {}

  static Upload* Begin(std::shared_ptr<Upload> upload,
                       StreamRegistry* registry) {
    Upload* raw = upload.get();
    raw->registry_ = registry;
    const absl::Status added = registry->Add(upload);
    raw->self_ = std::move(upload);
    if (added.ok()) {
      raw->StartRead(&raw->message_);
    } else {
      raw->Finish(ToGrpc(added));
    }
    return raw;
  }

  void OnReadDone(bool ok) override {
    if (stopped_)
      return End(
          absl::UnavailableError("the server is stopping; upload again later"));
    if (!ok) return Complete();
    const absl::Status taken = upload_.Take(message_);
    if (!taken.ok()) return End(taken);
    if (message_.has_header() && AnswerFromName()) return;
    StartRead(&message_);
  }

  void OnCancel() override { cancelled_ = true; }
  void Stop(const absl::Status&) override { stopped_ = true; }

  void OnDone() override {
    registry_->Remove(this);
    self_.reset();
  }

 private:
  // The name may tell the answer before the bytes come.
  bool AnswerFromName() {
    absl::StatusOr<v1::Dataset> known =
        control_->GetDataset(upload_.header().name());
    if (!known.ok()) return false;
    if (SameFiles(*known, upload_.header())) {
      *response_ = *std::move(known);
      End(absl::OkStatus());
    } else {
      End(absl::AlreadyExistsError(absl::StrCat(
          "dataset \"", upload_.header().name(),
          "\" exists with other content; choose another name, or delete it "
          "first")));
    }
    return true;
  }

  // No more messages: the client is done, or gone.
  void Complete() {
    if (cancelled_) return End(absl::CancelledError("the client went away"));
    absl::StatusOr<v1::Dataset> dataset = upload_.Finish();
    if (!dataset.ok()) return End(dataset.status());
    control_->RegisterDataset(*dataset,
                              [this](absl::StatusOr<v1::Dataset> result) {
                                if (result.ok()) *response_ = *result;
                                End(result.status());
                              });
  }

  void End(const absl::Status& status) { Finish(ToGrpc(status)); }

  ControlLoop* const control_;
  DatasetUpload upload_;
  v1::Dataset* const response_;
  StreamRegistry* registry_ = nullptr;
  std::shared_ptr<Upload> self_;
  v1::UploadDatasetRequest message_;
  std::atomic<bool> cancelled_ = false;
  std::atomic<bool> stopped_ = false;
};

}  // namespace

grpc::ServerReadReactor<v1::UploadDatasetRequest>*
DatasetService::UploadDataset(grpc::CallbackServerContext*,
                              v1::Dataset* response) {
  return Upload::Begin(
      std::make_shared<Upload>(control_, blobs_, options_.dataset_limit_bytes,
                               response),
      &uploads_);
}

grpc::ServerUnaryReactor* DatasetService::ListDatasets(
    grpc::CallbackServerContext* context,
    const v1::ListDatasetsRequest* request,
    v1::ListDatasetsResponse* response) {
  return Reply(context, control_->ListDatasets(*request), response);
}

grpc::ServerUnaryReactor* DatasetService::GetDataset(
    grpc::CallbackServerContext* context, const v1::GetDatasetRequest* request,
    v1::Dataset* response) {
  const absl::Status checked = CheckName("name", request->name());
  if (!checked.ok()) return Reply(context, checked);
  return Reply(context, control_->GetDataset(request->name()), response);
}

grpc::ServerUnaryReactor* DatasetService::DeleteDataset(
    grpc::CallbackServerContext* context,
    const v1::DeleteDatasetRequest* request,
    v1::DeleteDatasetResponse* response) {
  const absl::Status checked = CheckName("name", request->name());
  if (!checked.ok()) return Reply(context, checked);
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  control_->DeleteDataset(request->name(), ReplyLater(reactor, response));
  return reactor;
}

}  // namespace gpupool::server
