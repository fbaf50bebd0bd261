// Implements ModelService of gpupool.v1; model.proto is its contract.
#pragma once

#include "gpupool/v1/model.grpc.pb.h"
#include "server/api/rpc/api_limits.h"
#include "server/api/transfer/model_upload.h"
#include "server/store/blob_store.h"

namespace gpupool::server {

class JobAccess;
class ModelRepository;
class TenantAccess;
struct ControlContext;

// All must outlive the service. `folders` may be null.
struct ModelServiceNeeds {
  const ControlContext* control = nullptr;
  const BlobStore* blobs = nullptr;
  ModelRepository* folders = nullptr;
  const JobAccess* access = nullptr;
  const TenantAccess* tenants = nullptr;
};

class ModelService : public v1::ModelService::CallbackService {
 public:
  ModelService(const ModelServiceNeeds& needs, const ApiLimits& limits)
      : control_(needs.control),
        blobs_(needs.blobs),
        folders_(needs.folders),
        access_(needs.access),
        tenants_(needs.tenants),
        limits_(limits),
        uploads_(kMostUploads, kStreamPatience),
        exports_(kMostUploads, kStreamPatience) {}

  // Ends all uploads, exports and profiles.
  void StopStreams() {
    uploads_.StopAll();
    exports_.StopAll();
    profiles_.StopAll();
  }

  grpc::ServerReadReactor<v1::UploadModelRequest>* UploadModel(
      grpc::CallbackServerContext* context,
      v1::ModelVersion* response) override;
  grpc::ServerReadReactor<v1::UploadModelFileRequest>* UploadModelFile(
      grpc::CallbackServerContext* context, v1::ModelFile* response) override;
  grpc::ServerWriteReactor<v1::ExportModelResponse>* ExportModel(
      grpc::CallbackServerContext* context,
      const v1::ExportModelRequest* request) override;
  grpc::ServerWriteReactor<v1::ProfileModelResponse>* ProfileModel(
      grpc::CallbackServerContext* context,
      const v1::ProfileModelRequest* request) override;
  grpc::ServerUnaryReactor* ListModels(
      grpc::CallbackServerContext* context,
      const v1::ListModelsRequest* request,
      v1::ListModelsResponse* response) override;
  grpc::ServerUnaryReactor* GetModel(grpc::CallbackServerContext* context,
                                     const v1::GetModelRequest* request,
                                     v1::Model* response) override;
  grpc::ServerUnaryReactor* ShareModel(grpc::CallbackServerContext* context,
                                       const v1::ShareModelRequest* request,
                                       v1::Model* response) override;
  grpc::ServerUnaryReactor* PromoteCheckpoint(
      grpc::CallbackServerContext* context,
      const v1::PromoteCheckpointRequest* request,
      v1::ModelVersion* response) override;
  grpc::ServerUnaryReactor* LoadVersion(grpc::CallbackServerContext* context,
                                        const v1::LoadVersionRequest* request,
                                        v1::ModelVersion* response) override;
  grpc::ServerUnaryReactor* UnloadVersion(
      grpc::CallbackServerContext* context,
      const v1::UnloadVersionRequest* request,
      v1::ModelVersion* response) override;
  grpc::ServerUnaryReactor* DeleteVersion(
      grpc::CallbackServerContext* context,
      const v1::DeleteVersionRequest* request,
      v1::DeleteVersionResponse* response) override;
  grpc::ServerUnaryReactor* PlanModel(grpc::CallbackServerContext* context,
                                      const v1::PlanModelRequest* request,
                                      v1::PlanModelResponse* response) override;

 private:
  // Limit of profiles at a time, since each holds a file that may be large.
  static constexpr size_t kMaxProfiles = 16;

  ModelUploadContext UploadContext(grpc::CallbackServerContext* context);
  // Checks that the caller may make a version of the name that is promoted to.
  absl::Status CheckPromotedName(
      const grpc::CallbackServerContext& context,
      const v1::PromoteCheckpointRequest& request) const;
  // Returns true when the version is not stored and may be in a folder.
  bool MayBeInFolder(const v1::LoadVersionRequest& request) const;

  const ControlContext* const control_;
  const BlobStore* const blobs_;
  ModelRepository* const folders_;
  const JobAccess* const access_;
  const TenantAccess* const tenants_;
  const ApiLimits limits_;
  StreamRegistry uploads_;
  StreamRegistry exports_;
  StreamRegistry profiles_{kMaxProfiles, kStreamPatience};
};

}  // namespace gpupool::server
