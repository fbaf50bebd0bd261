// The interface of the protocol's repository rpcs to the part of the server
// that stores and loads model versions.
//
// Thread-safety: any thread. Ownership: must outlive the service.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gpupool/v1/model.pb.h"

namespace gpupool::server {

// Whether an unload of an ensemble also unloads the models of its steps.
enum class UnloadScope { kModel, kWithSteps };

class ModelRepository {
 public:
  using Done = std::function<void(const absl::Status&)>;

  virtual ~ModelRepository() = default;

  // Returns every stored version of every model, by model name, then by rising
  // version.
  virtual absl::StatusOr<std::vector<v1::ModelVersion>> Versions() = 0;
  // Loads the newest version. Calls `done` when it is ready or has failed.
  virtual void Load(const std::string& model, Done done) = 0;
  // Unloads all versions. Calls `done` when they are drained.
  virtual void Unload(const std::string& model, UnloadScope scope,
                      Done done) = 0;
};

}  // namespace gpupool::server
