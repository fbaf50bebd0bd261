// Implements the inference protocol's view of the model store by calls to
// control.
//
// Thread-safety: any thread. Ownership: control must outlive it.
#pragma once

#include <string>
#include <vector>

#include "server/api/inference/model_repository.h"

namespace gpupool::server {

struct ControlContext;

class ControlRepository : public ModelRepository {
 public:
  explicit ControlRepository(const ControlContext* control)
      : control_(control) {}

  absl::StatusOr<std::vector<v1::ModelVersion>> Versions() override;
  void Load(const std::string& model, Done done) override;
  void Unload(const std::string& model, UnloadScope scope, Done done) override;

 private:
  const ControlContext* const control_;
};

}  // namespace gpupool::server
