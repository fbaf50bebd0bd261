// The calls of a model repository to control. Each blocks until it is answered.
//
// Thread-safety: any thread but control's and the pool's. Ownership: control
// must outlive it. After control has stopped, calls answer Unavailable at once.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gpupool/v1/model.pb.h"
#include "server/control/models/repository_versions.h"

namespace gpupool::server {

class VersionCalls {
 public:
  virtual ~VersionCalls() = default;

  // Returns all stored versions that were read from a repository.
  virtual absl::StatusOr<std::vector<v1::ModelVersion>> Versions() = 0;
  // Calls ImportRepositoryVersion.
  virtual absl::Status Import(const RepositoryImport& import) = 0;
  // Asks to load a stored version. Does not wait for the load.
  virtual absl::Status Load(const std::string& model, uint64_t version,
                            const std::string& device) = 0;
  // Unloads the version, and waits for it.
  virtual absl::Status Unload(const std::string& model, uint64_t version) = 0;
  // Returns at once. Calls `done` when the load that was asked for has ended,
  // with Unavailable if the version is not ready then. A version that waits for
  // room may wait for ever.
  virtual void WhenLoaded(const std::string& model, uint64_t version,
                          std::function<void(const absl::Status&)> done) = 0;
};

class ControlCalls : public VersionCalls {
 public:
  explicit ControlCalls(const ControlContext* control) : control_(control) {}

  absl::StatusOr<std::vector<v1::ModelVersion>> Versions() override;
  absl::Status Import(const RepositoryImport& import) override;
  absl::Status Load(const std::string& model, uint64_t version,
                    const std::string& device) override;
  absl::Status Unload(const std::string& model, uint64_t version) override;
  void WhenLoaded(const std::string& model, uint64_t version,
                  std::function<void(const absl::Status&)> done) override;

 private:
  const ControlContext* const control_;
};

}  // namespace gpupool::server
