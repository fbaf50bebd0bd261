// Makes versions of the files in a model repository (server/repository).
//
// Thread-safety: any thread; see context.h.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "gpupool/v1/model.pb.h"
#include "server/control/calls/callback.h"
#include "server/control/calls/context.h"

namespace gpupool::server {

struct RepositoryImport {
  // The name, the spec, whose files must be in the blob store, and the options.
  // `wait` is not used.
  v1::UploadModelRequest::Header model;
  uint64_t number = 0;  // of the version's folder, 1 or higher
  std::string device;   // as LoadVersionRequest.device
  // Takes the planned version or refuses it. Called once, on any thread.
  std::function<absl::Status(const v1::ModelVersion&)> check;
};

// Plans, checks and rehearses the model, stores it as version `number` and asks
// to load it. Answers when that is on disk, and does not wait for the load.
//
// A version of this number that was read from a repository before is unloaded
// and deleted first, but only when the new one has passed everything else.
// AlreadyExists for a version that came another way, and for a model of a
// tenant.
void ImportRepositoryVersion(const ControlContext& context,
                             const RepositoryImport& import,
                             Callback<v1::ModelVersion> callback);

}  // namespace gpupool::server
