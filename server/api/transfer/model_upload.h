// Private to server/api: the streams that upload models.
#pragma once

#include "absl/status/statusor.h"
#include "gpupool/v1/model.pb.h"
#include "server/api/rpc/stream_place.h"
#include "server/api/rpc/tenant_access.h"
#include "server/api/rpc/upload_reactor.h"
#include "server/store/blob_store.h"

namespace gpupool::server {

struct ControlContext;

// All pointers must outlive the streams.
struct ModelUploadContext {
  const ControlContext* control = nullptr;
  const BlobStore* blobs = nullptr;
  uint64_t file_limit_bytes = 0;
  const TenantAccess* access = nullptr;
  absl::StatusOr<Identity> caller = Identity{};  // of this stream
  StreamPlace place;
};

// Starts an UploadModelFile stream: a header, then the chunks of one file.
grpc::ServerReadReactor<v1::UploadModelFileRequest>* StartModelFileUpload(
    const ModelUploadContext& context, v1::ModelFile* response);

// Starts an UploadModel stream: a header and, unless its spec is an ONNX file,
// the chunks of a safetensors file. At the end control makes a version of it.
grpc::ServerReadReactor<v1::UploadModelRequest>* StartModelUpload(
    const ModelUploadContext& context, v1::ModelVersion* response);

}  // namespace gpupool::server
