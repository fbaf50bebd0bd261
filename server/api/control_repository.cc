#include "server/api/control_repository.h"

#include <algorithm>
#include <utility>

#include "engine/base/status_macros.h"
#include "server/api/validation/convert.h"
#include "server/control/calls/context.h"
#include "server/control/models/model_requests.h"
#include "server/store/store.h"

namespace gpupool::server {
namespace {

// Returns the rpc's error when the version could not be loaded.
absl::Status LoadResult(const absl::StatusOr<v1::ModelVersion>& version) {
  if (!version.ok()) return version.status();
  if (version->state() == v1::READY) return absl::OkStatus();
  if (version->state() == v1::UNLOADED) {
    return absl::UnavailableError("it was unloaded during the wait");
  }
  return absl::UnavailableError(version->error());
}

}  // namespace

// Reads all pages of models, since the protocol's index has no pages.
absl::StatusOr<std::vector<v1::ModelVersion>> ControlRepository::Versions() {
  std::vector<v1::ModelVersion> versions;
  v1::ListModelsRequest request;
  do {
    ASSIGN_OR_RETURN(v1::ListModelsResponse page,
                     control_->store->ListModels(request));
    for (v1::Model& model : *page.mutable_models()) {
      auto* newest_first = model.mutable_versions();
      std::reverse(newest_first->begin(), newest_first->end());
      for (v1::ModelVersion& version : *newest_first) {
        versions.push_back(std::move(version));
      }
    }
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  return versions;
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
        done(LoadResult(v));
      });
}

void ControlRepository::Unload(const std::string& model, Done done) {
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
