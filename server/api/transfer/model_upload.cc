#include "server/api/transfer/model_upload.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "engine/base/status_macros.h"
#include "server/api/transfer/file_upload.h"
#include "server/api/validation/convert.h"
#include "server/api/validation/job_spec_check.h"
#include "server/control/models/model_requests.h"
#include "server/control/models/version_import.h"
#include "server/control/upkeep/tenant_quota.h"

namespace gpupool::server {
namespace {

absl::Status HeaderTwice() {
  return absl::InvalidArgumentError(
      "the header came twice; only the first message carries it");
}

absl::Status ChunkFirst() {
  return absl::InvalidArgumentError(
      "a chunk came first; the first message must carry the header");
}

absl::Status NoHeader() {
  return absl::InvalidArgumentError("the stream ended before its header came");
}

// Returns OK if the tenant may store the bytes of an upload.
absl::Status CheckTenantRoom(const ModelUploadContext& context,
                             const std::string& tenant, uint64_t bytes,
                             const v1::UploadPart& part) {
  return CheckUploadRoom(*context.control, tenant, bytes,
                         {TenantUploadKey(tenant, part.upload_key())});
}

class ModelFileUpload : public UploadReactor<v1::UploadModelFileRequest> {
 public:
  ModelFileUpload(const ModelUploadContext& context, v1::ModelFile* response)
      : context_(context), response_(response) {}

 private:
  bool Take(const v1::UploadModelFileRequest& message) override {
    const absl::Status taken =
        message.has_header() ? TakeHeader(message.header())
        : file_.has_value()  ? file_->Append(message.chunk())
                             : ChunkFirst();
    if (!taken.ok()) End(taken);
    return taken.ok();
  }

  absl::Status TakeHeader(const v1::UploadModelFileRequest::Header& header) {
    if (file_.has_value()) return HeaderTwice();
    ASSIGN_OR_RETURN(const Identity caller, context_.caller);
    RETURN_IF_ERROR(CheckTenantRoom(context_, caller.tenant,
                                    header.total_bytes(), header.part()));
    ASSIGN_OR_RETURN(file_,
                     FileUpload::Begin(*context_.blobs,
                                       {header.sha256(), header.total_bytes(),
                                        header.part(), caller.tenant},
                                       context_.file_limit_bytes));
    response_->set_sha256(header.sha256());
    response_->set_bytes(header.total_bytes());
    return absl::OkStatus();
  }

  void Complete() override {
    if (!file_.has_value()) return End(NoHeader());
    const absl::Status stored = file_->Finish();
    if (stored.ok()) file_->ForgetAfter(stored);
    End(stored);
  }

  const ModelUploadContext context_;
  v1::ModelFile* const response_;
  std::optional<FileUpload> file_;
};

class ModelUpload : public UploadReactor<v1::UploadModelRequest> {
 public:
  ModelUpload(const ModelUploadContext& context, v1::ModelVersion* response)
      : context_(context), response_(response) {}

 private:
  bool Take(const v1::UploadModelRequest& message) override {
    const absl::Status taken = message.has_header()
                                   ? TakeHeader(message.header())
                                   : TakeChunk(message.chunk());
    if (!taken.ok()) End(taken);
    return taken.ok();
  }

  absl::Status TakeHeader(const v1::UploadModelRequest::Header& header) {
    if (header_.has_value()) return HeaderTwice();
    header_ = header;
    RETURN_IF_ERROR(CheckName("name", header.name()));
    RETURN_IF_ERROR(CheckModelSpec("spec", header.spec()));
    RETURN_IF_ERROR(CheckServingOptions("serving", header_->mutable_serving()));
    ASSIGN_OR_RETURN(const Identity caller, context_.caller);
    RETURN_IF_ERROR(context_.access->CheckMayAdd(caller, header.name()));
    RETURN_IF_ERROR(CheckTenantRoom(context_, caller.tenant,
                                    UploadedBytes(*context_.blobs, header),
                                    header.part()));
    if (header.spec().has_onnx() || header.spec().has_weights()) {
      return CheckNoWeights(header);
    }
    ASSIGN_OR_RETURN(weights_,
                     FileUpload::Begin(*context_.blobs,
                                       {header.sha256(), header.total_bytes(),
                                        header.part(), caller.tenant},
                                       context_.file_limit_bytes));
    return absl::OkStatus();
  }

  // Checks that a header whose spec names files with weights announces no
  // others.
  static absl::Status CheckNoWeights(
      const v1::UploadModelRequest::Header& header) {
    if (header.total_bytes() == 0 && header.sha256().empty() &&
        !header.has_part()) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(
        "an ONNX file brings its own weights, and spec.weights names others; "
        "leave total_bytes, sha256 and part empty and send no chunks");
  }

  absl::Status TakeChunk(const std::string& chunk) {
    if (!header_.has_value()) return ChunkFirst();
    if (weights_.has_value()) return weights_->Append(chunk);
    return absl::InvalidArgumentError(
        "a chunk came, but an ONNX file brings its own weights");
  }

  void Complete() override {
    if (!header_.has_value()) return End(NoHeader());
    if (weights_.has_value()) {
      const absl::Status stored = weights_->Finish();
      if (!stored.ok()) return End(stored);
    }
    server::ImportModel(*context_.control, *header_, context_.caller->tenant,
                        [this](absl::StatusOr<v1::ModelVersion> version) {
                          if (version.ok()) *response_ = *version;
                          if (weights_.has_value()) {
                            weights_->ForgetAfter(version.status());
                          }
                          End(version.status());
                        });
  }

  const ModelUploadContext context_;
  v1::ModelVersion* const response_;
  std::optional<v1::UploadModelRequest::Header> header_;
  std::optional<FileUpload> weights_;
};

}  // namespace

grpc::ServerReadReactor<v1::UploadModelFileRequest>* StartModelFileUpload(
    const ModelUploadContext& context, v1::ModelFile* response) {
  return ModelFileUpload::Begin(
      std::make_shared<ModelFileUpload>(context, response), context.place);
}

grpc::ServerReadReactor<v1::UploadModelRequest>* StartModelUpload(
    const ModelUploadContext& context, v1::ModelVersion* response) {
  return ModelUpload::Begin(std::make_shared<ModelUpload>(context, response),
                            context.place);
}

}  // namespace gpupool::server
