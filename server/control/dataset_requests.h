// How datasets get in and out.
//
// Thread-safety: any thread; see context.h.
#pragma once

#include <string>

#include "server/control/context.h"

namespace gpupool::server {

void RegisterDataset(const ControlContext& context, const v1::Dataset& dataset,
                     ControlLoop::Callback<v1::Dataset> callback);
void DeleteDataset(const ControlContext& context, const std::string& name,
                   ControlLoop::Callback<v1::DeleteDatasetResponse> callback);

}  // namespace gpupool::server
