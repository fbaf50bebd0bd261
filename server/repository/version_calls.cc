#include "server/repository/version_calls.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>

#include "absl/synchronization/notification.h"
#include "engine/base/status_macros.h"
#include "server/control/models/model_requests.h"
#include "server/control/models/stored_versions.h"
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

}  // namespace

absl::StatusOr<std::vector<v1::ModelVersion>> ControlCalls::Versions() {
  ASSIGN_OR_RETURN(std::vector<v1::ModelVersion> versions,
                   StoredVersions(*control_->store));
  versions.erase(std::remove_if(versions.begin(), versions.end(),
                                [](const v1::ModelVersion& version) {
                                  return !version.from_repository();
                                }),
                 versions.end());
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
