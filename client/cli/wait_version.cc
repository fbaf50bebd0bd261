#include "client/cli/wait_version.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace gpupool::client {
namespace {

std::optional<v1::ModelVersion> VersionOf(const v1::Model& model,
                                          uint64_t job_id) {
  for (const v1::ModelVersion& version : model.versions()) {
    if (version.job_id() == job_id) return version;
  }
  return std::nullopt;
}

}  // namespace

absl::StatusOr<v1::ModelVersion> WaitForJobVersion(Client& client,
                                                   const v1::Job& job,
                                                   std::stop_token stop) {
  v1::GetModelRequest request;
  const std::string& published = job.spec().publish().model();
  request.set_name(published.empty() ? job.spec().name() : published);
  const absl::Time limit = absl::Now() + client.options().wait_timeout;
  while (!stop.stop_requested()) {
    const absl::StatusOr<v1::Model> model = client.GetModel(request);
    if (model.ok()) {
      const auto version = VersionOf(*model, job.id());
      if (version.has_value() && (version->state() == v1::READY ||
                                  version->state() == v1::LOAD_FAILED)) {
        return *version;
      }
    } else if (!absl::IsNotFound(model.status())) {
      return model.status();
    }
    if (absl::Now() > limit) {
      return absl::DeadlineExceededError(
          absl::StrCat("the job succeeded, but its model '", request.name(),
                       "' is not served yet; see `gpupool models get ",
                       request.name(), "`"));
    }
    absl::SleepFor(absl::Milliseconds(50));
  }
  return absl::CancelledError("stopped");
}

}  // namespace gpupool::client
