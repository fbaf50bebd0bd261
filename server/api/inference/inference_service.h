// Implements the open inference protocol (proto/inference) in front of Serving,
// with the callback API: no thread waits for a model.
//
// Thread-safety: gRPC calls it from any thread. Ownership: borrows what the
// options name, which must outlive the service. The service must outlive the
// gRPC server. Call Serving::Stop before the server is shut down, so that
// waiting requests are answered.
#pragma once

#include <grpcpp/support/server_callback.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "inference/grpc_service.grpc.pb.h"
#include "server/api/inference/bytes_in_flight.h"
#include "server/api/inference/infer_request.h"
#include "server/api/inference/log_control.h"
#include "server/api/inference/memory_return.h"
#include "server/api/inference/model_repository.h"
#include "server/api/inference/shared_regions.h"
#include "server/api/rpc/tenant_access.h"
#include "server/serving/serving.h"

namespace gpupool::server {

struct InferenceServiceOptions {
  const Serving* serving = nullptr;
  ModelRepository* repository = nullptr;
  LogControl* log = nullptr;
  ServingObserver* observer = nullptr;     // may be null
  Tracer* tracer = nullptr;                // null: nothing is traced
  std::shared_ptr<SharedRegions> regions;  // null: shared memory is off
  // Value of ServerMetadata.name. Some clients insist on another server's name.
  std::string server_name = "gpupool";
  std::string server_version;
  uint64_t max_bytes_in_flight = uint64_t{1} << 30;
  // The parts by which callers are told apart. Null: all callers may use all
  // models.
  const ControlContext* control = nullptr;
  AccessGate* gate = nullptr;
  // Asked by ServerReady while requests are accepted.
  std::function<bool()> ready = [] { return true; };
};

class InferenceService final
    : public inference::GRPCInferenceService::CallbackService {
 public:
  explicit InferenceService(InferenceServiceOptions options);

  grpc::ServerUnaryReactor* ServerLive(
      grpc::CallbackServerContext* context,
      const inference::ServerLiveRequest* request,
      inference::ServerLiveResponse* response) override;
  grpc::ServerUnaryReactor* ServerReady(
      grpc::CallbackServerContext* context,
      const inference::ServerReadyRequest* request,
      inference::ServerReadyResponse* response) override;
  grpc::ServerUnaryReactor* ServerMetadata(
      grpc::CallbackServerContext* context,
      const inference::ServerMetadataRequest* request,
      inference::ServerMetadataResponse* response) override;
  grpc::ServerUnaryReactor* ModelReady(
      grpc::CallbackServerContext* context,
      const inference::ModelReadyRequest* request,
      inference::ModelReadyResponse* response) override;
  grpc::ServerUnaryReactor* ModelMetadata(
      grpc::CallbackServerContext* context,
      const inference::ModelMetadataRequest* request,
      inference::ModelMetadataResponse* response) override;
  grpc::ServerUnaryReactor* ModelInfer(
      grpc::CallbackServerContext* context,
      const inference::ModelInferRequest* request,
      inference::ModelInferResponse* response) override;
  grpc::ServerBidiReactor<inference::ModelInferRequest,
                          inference::ModelStreamInferResponse>*
  ModelStreamInfer(grpc::CallbackServerContext* context) override;
  grpc::ServerUnaryReactor* ModelConfig(
      grpc::CallbackServerContext* context,
      const inference::ModelConfigRequest* request,
      inference::ModelConfigResponse* response) override;
  grpc::ServerUnaryReactor* ModelStatistics(
      grpc::CallbackServerContext* context,
      const inference::ModelStatisticsRequest* request,
      inference::ModelStatisticsResponse* response) override;
  grpc::ServerUnaryReactor* RepositoryIndex(
      grpc::CallbackServerContext* context,
      const inference::RepositoryIndexRequest* request,
      inference::RepositoryIndexResponse* response) override;
  grpc::ServerUnaryReactor* RepositoryModelLoad(
      grpc::CallbackServerContext* context,
      const inference::RepositoryModelLoadRequest* request,
      inference::RepositoryModelLoadResponse* response) override;
  grpc::ServerUnaryReactor* RepositoryModelUnload(
      grpc::CallbackServerContext* context,
      const inference::RepositoryModelUnloadRequest* request,
      inference::RepositoryModelUnloadResponse* response) override;

  grpc::ServerUnaryReactor* LogSettings(
      grpc::CallbackServerContext* context,
      const inference::LogSettingsRequest* request,
      inference::LogSettingsResponse* response) override;
  grpc::ServerUnaryReactor* TraceSetting(
      grpc::CallbackServerContext* context,
      const inference::TraceSettingRequest* request,
      inference::TraceSettingResponse* response) override;

  // Answer UNIMPLEMENTED with a sentence if shared memory is off. If it is on,
  // there are no regions of CUDA, and registering one is refused.
  grpc::ServerUnaryReactor* SystemSharedMemoryStatus(
      grpc::CallbackServerContext* context,
      const inference::SystemSharedMemoryStatusRequest* request,
      inference::SystemSharedMemoryStatusResponse* response) override;
  grpc::ServerUnaryReactor* SystemSharedMemoryRegister(
      grpc::CallbackServerContext* context,
      const inference::SystemSharedMemoryRegisterRequest* request,
      inference::SystemSharedMemoryRegisterResponse* response) override;
  grpc::ServerUnaryReactor* SystemSharedMemoryUnregister(
      grpc::CallbackServerContext* context,
      const inference::SystemSharedMemoryUnregisterRequest* request,
      inference::SystemSharedMemoryUnregisterResponse* response) override;
  grpc::ServerUnaryReactor* CudaSharedMemoryStatus(
      grpc::CallbackServerContext* context,
      const inference::CudaSharedMemoryStatusRequest* request,
      inference::CudaSharedMemoryStatusResponse* response) override;
  grpc::ServerUnaryReactor* CudaSharedMemoryRegister(
      grpc::CallbackServerContext* context,
      const inference::CudaSharedMemoryRegisterRequest* request,
      inference::CudaSharedMemoryRegisterResponse* response) override;
  grpc::ServerUnaryReactor* CudaSharedMemoryUnregister(
      grpc::CallbackServerContext* context,
      const inference::CudaSharedMemoryUnregisterRequest* request,
      inference::CudaSharedMemoryUnregisterResponse* response) override;

 private:
  absl::Status FillMetadataOf(const grpc::CallbackServerContext& context,
                              const inference::ModelMetadataRequest& request,
                              inference::ModelMetadataResponse* response);
  absl::Status FillStatisticsOf(
      const grpc::CallbackServerContext& context,
      const inference::ModelStatisticsRequest& request,
      inference::ModelStatisticsResponse* response);
  absl::Status FillIndexOf(const grpc::CallbackServerContext& context,
                           const inference::RepositoryIndexRequest& request,
                           inference::RepositoryIndexResponse* response);

  // Returns the version, if the caller may use it.
  absl::StatusOr<VersionHandle> Route(
      const grpc::CallbackServerContext& context, const std::string& model,
      const std::string& version) const;
  // Returns who calls. An admin where callers do not differ.
  absl::StatusOr<Identity> CallerOf(
      const grpc::CallbackServerContext& context) const;
  // Returns whether the caller may use a model of the repository.
  bool MayUse(const Identity& caller, const v1::ModelVersion& row) const;
  // Checks that the caller may load and unload the model. For an ensemble, that
  // it may use the models of the steps, or change them with `scope`.
  absl::Status CheckMayChange(const grpc::CallbackServerContext& context,
                              const std::string& model,
                              UnloadScope scope) const;

  const InferenceServiceOptions options_;
  const TenantAccess access_;
  BytesInFlight bytes_in_flight_;
  const MemoryReturn memory_return_;
  const InferContext infer_context_;
};

}  // namespace gpupool::server
