// ModelService of gpupool.v1; model.proto is its contract.
#pragma once

#include "gpupool/v1/model.grpc.pb.h"
#include "server/control/control_loop.h"

namespace gpupool::server {

class ModelService : public v1::ModelService::CallbackService {
 public:
  // `control` outlives the service.
  explicit ModelService(ControlLoop* control) : control_(control) {}

  // Not built yet: answers Unimplemented.
  grpc::ServerReadReactor<v1::UploadModelRequest>* UploadModel(
      grpc::CallbackServerContext* context,
      v1::ModelVersion* response) override;
  grpc::ServerUnaryReactor* ListModels(
      grpc::CallbackServerContext* context,
      const v1::ListModelsRequest* request,
      v1::ListModelsResponse* response) override;
  grpc::ServerUnaryReactor* GetModel(grpc::CallbackServerContext* context,
                                     const v1::GetModelRequest* request,
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
  ControlLoop* const control_;
};

}  // namespace gpupool::server
