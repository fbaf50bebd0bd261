// What the protocol's repository rpcs ask of the part of the server that
// stores and loads model versions.
//
// Thread-safety: any thread. Ownership: outlives the service.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gpupool/v1/model.pb.h"

namespace gpupool::server {

class ModelRepository {
 public:
  using Done = std::function<void(const absl::Status&)>;

  virtual ~ModelRepository() = default;

  // Every stored version of every model, by model name, then rising version.
  virtual absl::StatusOr<std::vector<v1::ModelVersion>> Versions() = 0;
  // Loads the newest version; `done` when it is ready or has failed.
  virtual void Load(const std::string& model, Done done) = 0;
  // Unloads all versions; `done` when they are drained.
  virtual void Unload(const std::string& model, Done done) = 0;
};

}  // namespace gpupool::server
