#include "server/control/models/model_profiles.h"

#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "engine/base/status_macros.h"
#include "gpupool/v1/model.pb.h"
#include "gpupool/worker/v1/worker.pb.h"
#include "server/control/calls/ask_worker.h"
#include "server/control/calls/context.h"
#include "server/control/calls/control_options.h"
#include "server/store/store.h"

namespace gpupool::server {
namespace {

absl::Status NotServed(const std::string& name, absl::string_view state) {
  return absl::FailedPreconditionError(
      absl::StrCat(name, " is ", state,
                   " and can be profiled only while it is READY; `gpupool "
                   "models load ",
                   name, "` loads it"));
}

// Returns the version to profile, which is READY.
absl::StatusOr<v1::ModelVersion> ServedVersion(
    const Store& store, const v1::ProfileModelRequest& request) {
  if (request.version() != 0) {
    ASSIGN_OR_RETURN(v1::ModelVersion version,
                     store.GetVersion(request.model(), request.version()));
    if (version.state() == v1::READY) return version;
    return NotServed(absl::StrCat(request.model(), "/", request.version()),
                     v1::VersionState_Name(version.state()));
  }
  ASSIGN_OR_RETURN(const v1::Model model, store.GetModel(request.model()));
  for (const v1::ModelVersion& version : model.versions()) {  // newest first
    if (version.state() == v1::READY) return version;
  }
  return NotServed(request.model(), "not served in any version");
}

}  // namespace

void ProfileModel(const ControlContext& context,
                  const v1::ProfileModelRequest& request,
                  Callback<ModelProfile> callback) {
  const absl::StatusOr<v1::ModelVersion> version =
      ServedVersion(*context.store, request);
  if (!version.ok()) return callback(version.status());
  worker::v1::ToWorker message;
  worker::v1::ProfileModel& profile = *message.mutable_profile_model();
  profile.set_version_id(version->id());
  profile.set_requests(request.requests());
  profile.set_rows(request.rows());
  const absl::Duration timeout = context.options.profile_timeout;
  AskWorker(context, {version->device(), std::move(message), timeout},
            [callback, number = version->version(),
             name = absl::StrCat(request.model(), "/", version->version()),
             timeout](const absl::StatusOr<worker::v1::FromWorker>& reply) {
              if (reply.ok()) {
                const worker::v1::ProfileReply& made = reply->profile_job();
                return callback(ModelProfile{made.sha256(), made.bytes(),
                                             made.steps(), number});
              }
              if (absl::IsNotFound(reply.status())) {
                return callback(absl::FailedPreconditionError(absl::StrCat(
                    name, " is just being unloaded or moved; try again")));
              }
              if (!absl::IsDeadlineExceeded(reply.status())) {
                return callback(reply.status());
              }
              callback(absl::DeadlineExceededError(
                  absl::StrCat(name, " did not compute the requests in ",
                               absl::FormatDuration(timeout),
                               "; ask for fewer requests or rows")));
            });
}

}  // namespace gpupool::server
