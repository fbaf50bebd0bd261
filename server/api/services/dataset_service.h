// Implements DatasetService of gpupool.v1; dataset.proto is its contract.
#pragma once

#include "gpupool/v1/dataset.grpc.pb.h"
#include "server/api/rpc/api_limits.h"
#include "server/api/rpc/stream_registry.h"
#include "server/store/blob_store.h"

namespace gpupool::server {

class TenantAccess;
struct ControlContext;

class DatasetService : public v1::DatasetService::CallbackService {
 public:
  // All three must outlive the service.
  DatasetService(const ControlContext* control, const BlobStore* blobs,
                 const TenantAccess* tenants, const ApiLimits& limits)
      : control_(control),
        blobs_(blobs),
        tenants_(tenants),
        limits_(limits),
        uploads_(kMostUploads, kStreamPatience) {}

  // Ends all uploads.
  void StopStreams() { uploads_.StopAll(); }

  grpc::ServerReadReactor<v1::UploadDatasetRequest>* UploadDataset(
      grpc::CallbackServerContext* context, v1::Dataset* response) override;
  grpc::ServerUnaryReactor* ListDatasets(
      grpc::CallbackServerContext* context,
      const v1::ListDatasetsRequest* request,
      v1::ListDatasetsResponse* response) override;
  grpc::ServerUnaryReactor* GetDataset(grpc::CallbackServerContext* context,
                                       const v1::GetDatasetRequest* request,
                                       v1::Dataset* response) override;
  grpc::ServerUnaryReactor* DeleteDataset(
      grpc::CallbackServerContext* context,
      const v1::DeleteDatasetRequest* request,
      v1::DeleteDatasetResponse* response) override;

 private:
  const ControlContext* const control_;
  const BlobStore* const blobs_;
  const TenantAccess* const tenants_;
  const ApiLimits limits_;
  StreamRegistry uploads_;
};

}  // namespace gpupool::server
