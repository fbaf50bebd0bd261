// What clients ask of model versions: promote, load, unload, delete.
//
// Thread-safety: any thread; see context.h.
#pragma once

#include "server/control/context.h"

namespace gpupool::server {

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
