// Handles requests about model versions: import, export, promote, load, unload
// and delete.
//
// Thread-safety: any thread; see context.h.
#pragma once

#include <string>

#include "server/control/calls/callback.h"

namespace gpupool::v1 {
class DeleteVersionRequest;
class DeleteVersionResponse;
class ExportModelRequest;
class ExportModelResponse_Header;
class LoadVersionRequest;
class Model;
class ModelVersion;
class PromoteCheckpointRequest;
class ShareModelRequest;
class UnloadVersionRequest;
class UploadModelRequest_Header;
}  // namespace gpupool::v1

namespace gpupool::server {

struct ControlContext;

// Makes a version of an uploaded model, whose files must be in the blob store,
// and loads it. A worker first plans the model and stores it as a checkpoint. A
// new model belongs to `tenant`, which may be empty. AlreadyExists when another
// tenant has the name.
void ImportModel(const ControlContext& context,
                 const v1::UploadModelRequest_Header& model,
                 const std::string& tenant,
                 Callback<v1::ModelVersion> callback);
// Shares all versions of a model with the other tenants, or takes that back.
void ShareModel(const ControlContext& context,
                const v1::ShareModelRequest& request,
                Callback<v1::Model> callback);
// Lets a worker write the version as a blob and answers with its header.
// Nothing refers to the blob: it is swept away after sweep_min_age.
void ExportModel(const ControlContext& context,
                 const v1::ExportModelRequest& request,
                 Callback<v1::ExportModelResponse_Header> callback);
// Makes a version of a job's checkpoint and loads it. A new model belongs to
// the job's tenant. AlreadyExists when another tenant has the name.
void PromoteCheckpoint(const ControlContext& context,
                       const v1::PromoteCheckpointRequest& request,
                       Callback<v1::ModelVersion> callback);
void LoadVersion(const ControlContext& context,
                 const v1::LoadVersionRequest& request,
                 Callback<v1::ModelVersion> callback);
void UnloadVersion(const ControlContext& context,
                   const v1::UnloadVersionRequest& request,
                   Callback<v1::ModelVersion> callback);
void DeleteVersion(const ControlContext& context,
                   const v1::DeleteVersionRequest& request,
                   Callback<v1::DeleteVersionResponse> callback);

}  // namespace gpupool::server
