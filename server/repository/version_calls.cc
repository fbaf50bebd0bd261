#include "server/repository/version_calls.h"

#include <functional>
#include <memory>
#include <utility>

#include "absl/synchronization/notification.h"
#include "engine/base/status_macros.h"
#include "server/control/models/model_requests.h"
#include "server/store/store.h"

namespace gpupool::server {
namespace {

// The answer of one call. Shared, since the callback may be the last to let go.
struct PendingAnswer {
  absl::Notification came;
  absl::Status status;
};

// Starts a call and waits for its answer.
absl::Status Await(
    const std::function<void(Callback<v1::ModelVersion>)>& start) {
  const auto answer = std::make_shared<PendingAnswer>();
  start([answer](const absl::StatusOr<v1::ModelVersion>& version) {
    answer->status = version.status();
    answer->came.Notify();
  });
  answer->came.WaitForNotification();
  return answer->status;
}

absl::Status LoadOutcome(const absl::StatusOr<v1::ModelVersion>& version) {
  if (!version.ok()) return version.status();
  if (version->state() == v1::READY) return absl::OkStatus();
  return absl::UnavailableError(version->error().empty()
                                    ? "it was unloaded during the wait"
                                    : version->error());
}

}  // namespace

absl::StatusOr<std::vector<v1::ModelVersion>> ControlCalls::Versions() {
  std::vector<v1::ModelVersion> versions;
  v1::ListModelsRequest request;
  do {
    ASSIGN_OR_RETURN(v1::ListModelsResponse page,
                     control_->store->ListModels(request));
    for (v1::Model& model : *page.mutable_models()) {
      for (v1::ModelVersion& version : *model.mutable_versions()) {
        if (version.from_repository()) versions.push_back(std::move(version));
      }
    }
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  return versions;
}

absl::Status ControlCalls::Import(const RepositoryImport& import) {
  return Await([&](Callback<v1::ModelVersion> callback) {
    ImportRepositoryVersion(*control_, import, std::move(callback));
  });
}

absl::Status ControlCalls::Load(const std::string& model, uint64_t version,
                                const std::string& device) {
  v1::LoadVersionRequest request;
  request.set_model(model);
  request.set_version(version);
  request.set_device(device);
  return Await([&](Callback<v1::ModelVersion> callback) {
    LoadVersion(*control_, request, std::move(callback));
  });
}

absl::Status ControlCalls::Unload(const std::string& model, uint64_t version) {
  v1::UnloadVersionRequest request;
  request.set_model(model);
  request.set_version(version);
  request.set_wait(true);
  return Await([&](Callback<v1::ModelVersion> callback) {
    UnloadVersion(*control_, request, std::move(callback));
  });
}

void ControlCalls::WhenLoaded(const std::string& model, uint64_t version,
                              std::function<void(const absl::Status&)> done) {
  v1::LoadVersionRequest request;
  request.set_model(model);
  request.set_version(version);
  // A load to another device would be refused while it is loaded.
  const auto row = control_->store->GetVersion(model, version);
  if (row.ok()) request.set_device(row->wanted_device());
  request.set_wait(true);
  LoadVersion(
      *control_, request,
      [done = std::move(done)](const absl::StatusOr<v1::ModelVersion>& loaded) {
        done(LoadOutcome(loaded));
      });
}

}  // namespace gpupool::server
