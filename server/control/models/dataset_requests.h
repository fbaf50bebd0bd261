// Handles requests to register and delete datasets.
//
// Thread-safety: any thread; see context.h.
#pragma once

#include <string>

#include "server/control/calls/callback.h"

namespace gpupool::v1 {
class Dataset;
class DeleteDatasetResponse;
}  // namespace gpupool::v1

namespace gpupool::server {

struct ControlContext;

// Registers a dataset by name, layout, files and tenant, which may be empty;
// the files must be in the blob store. A worker reads every row first; its
// error names line and column. AlreadyExists when another dataset, or another
// tenant, has the name.
void RegisterDataset(const ControlContext& context, const v1::Dataset& dataset,
                     Callback<v1::Dataset> callback);
// Deletes the dataset and the files that no other dataset has. NotFound names
// it; FailedPrecondition names a job that uses it.
void DeleteDataset(const ControlContext& context, const std::string& name,
                   Callback<v1::DeleteDatasetResponse> callback);

}  // namespace gpupool::server
