#include "server/api/control_repository.h"

#include <utility>

#include "server/api/validation/convert.h"
#include "server/control/calls/context.h"
#include "server/control/models/model_requests.h"
#include "server/control/models/stored_versions.h"

namespace gpupool::server {

absl::StatusOr<std::vector<v1::ModelVersion>> ControlRepository::Versions() {
  return StoredVersions(*control_->store);
}

void ControlRepository::Load(const std::string& model, Done done) {
  const absl::Status checked = CheckName("model_name", model);
  if (!checked.ok()) return done(checked);
  v1::LoadVersionRequest request;
  request.set_model(model);
  request.set_wait(true);
  server::LoadVersion(
      *control_, request,
      [done = std::move(done)](absl::StatusOr<v1::ModelVersion> v) {
        done(LoadOutcome(v));
      });
}

// No stored model has steps.
void ControlRepository::Unload(const std::string& model, UnloadScope,
                               Done done) {
  const absl::Status checked = CheckName("model_name", model);
  if (!checked.ok()) return done(checked);
  v1::UnloadVersionRequest request;
  request.set_model(model);
  request.set_wait(true);
  server::UnloadVersion(
      *control_, request,
      [done = std::move(done)](absl::StatusOr<v1::ModelVersion> v) {
        done(v.status());
      });
}

}  // namespace gpupool::server
