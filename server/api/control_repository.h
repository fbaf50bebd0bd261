// The inference protocol's view of the model store, as calls to control.
//
// Thread-safety: any thread. Ownership: control outlives it.
#pragma once

#include <string>
#include <vector>

#include "server/api/inference/model_repository.h"
#include "server/control/control_loop.h"

namespace gpupool::server {

class ControlRepository : public ModelRepository {
 public:
  explicit ControlRepository(ControlLoop* control) : control_(control) {}

  absl::StatusOr<std::vector<v1::ModelVersion>> Versions() override;
  void Load(const std::string& model, Done done) override;
  void Unload(const std::string& model, Done done) override;

 private:
  ControlLoop* const control_;
};

}  // namespace gpupool::server
