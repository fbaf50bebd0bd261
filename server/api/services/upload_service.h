// Implements UploadService of gpupool.v1; upload.proto is its contract.
#pragma once

#include "gpupool/v1/upload.grpc.pb.h"
#include "server/store/blob_store.h"

namespace gpupool::server {

class UploadService : public v1::UploadService::CallbackService {
 public:
  // `blobs` must outlive the service.
  explicit UploadService(const BlobStore* blobs) : blobs_(blobs) {}

  grpc::ServerUnaryReactor* GetUpload(grpc::CallbackServerContext* context,
                                      const v1::GetUploadRequest* request,
                                      v1::Upload* response) override;

 private:
  const BlobStore* const blobs_;
};

}  // namespace gpupool::server
