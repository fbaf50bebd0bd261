// What clients ask of model versions: import, export, promote, load, unload,
// delete.
//
// Thread-safety: any thread; see context.h.
#pragma once

#include "server/control/context.h"

namespace gpupool::server {

void ImportModel(const ControlContext& context,
                 const v1::UploadModelRequest::Header& model,
                 VersionCallback callback);
void ExportModel(
    const ControlContext& context, const v1::ExportModelRequest& request,
    ControlLoop::Callback<v1::ExportModelResponse::Header> callback);
void PromoteCheckpoint(const ControlContext& context,
                       const v1::PromoteCheckpointRequest& request,
                       VersionCallback callback);
void LoadVersion(const ControlContext& context,
                 const v1::LoadVersionRequest& request,
                 VersionCallback callback);
void UnloadVersion(const ControlContext& context,
                   const v1::UnloadVersionRequest& request,
                   VersionCallback callback);
void DeleteVersion(const ControlContext& context,
                   const v1::DeleteVersionRequest& request,
                   ControlLoop::Callback<v1::DeleteVersionResponse> callback);

}  // namespace gpupool::server
