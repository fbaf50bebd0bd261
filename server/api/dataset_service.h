// DatasetService of gpupool.v1; dataset.proto is its contract.
#pragma once

#include "gpupool/v1/dataset.grpc.pb.h"
#include "server/api/stream_registry.h"
#include "server/store/blob_store.h"

namespace gpupool::server {

struct ControlContext;

struct DatasetServiceOptions {
  uint64_t dataset_limit_bytes = uint64_t{8} << 30;
  size_t upload_limit = 16;  // uploads at a time
};

class DatasetService : public v1::DatasetService::CallbackService {
 public:
  // `control` and `blobs` outlive the service.
  DatasetService(const ControlContext* control, const BlobStore* blobs,
                 DatasetServiceOptions options)
      : control_(control),
        blobs_(blobs),
        options_(options),
        uploads_(options.upload_limit) {}

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
  const DatasetServiceOptions options_;
  StreamRegistry uploads_;
};

}  // namespace gpupool::server
