// Implements UploadService of gpupool.v1; upload.proto is its contract.
#pragma once

#include "gpupool/v1/upload.grpc.pb.h"
#include "server/store/blob_store.h"

namespace gpupool::server {

class TenantAccess;

class UploadService : public v1::UploadService::CallbackService {
 public:
  // Both must outlive the service.
  UploadService(const BlobStore* blobs, const TenantAccess* tenants)
      : blobs_(blobs), tenants_(tenants) {}

  grpc::ServerUnaryReactor* GetUpload(grpc::CallbackServerContext* context,
                                      const v1::GetUploadRequest* request,
                                      v1::Upload* response) override;

 private:
  const BlobStore* const blobs_;
  const TenantAccess* const tenants_;
};

}  // namespace gpupool::server
