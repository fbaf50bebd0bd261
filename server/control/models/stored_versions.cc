#include "server/control/models/stored_versions.h"

#include <algorithm>
#include <utility>

#include "engine/base/status_macros.h"
#include "server/store/store.h"

namespace gpupool::server {

absl::StatusOr<std::vector<v1::ModelVersion>> StoredVersions(
    const Store& store) {
  std::vector<v1::ModelVersion> versions;
  v1::ListModelsRequest request;
  do {
    ASSIGN_OR_RETURN(v1::ListModelsResponse page, store.ListModels(request));
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

absl::Status LoadOutcome(const absl::StatusOr<v1::ModelVersion>& version) {
  if (!version.ok()) return version.status();
  if (version->state() == v1::READY) return absl::OkStatus();
  const bool unloaded =
      version->state() == v1::UNLOADED || version->error().empty();
  return absl::UnavailableError(unloaded ? "it was unloaded during the wait"
                                         : version->error());
}

}  // namespace gpupool::server
