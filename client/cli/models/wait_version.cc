#include "client/cli/models/wait_version.h"

#include <algorithm>
#include <optional>
#include <ostream>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/text/units.h"
#include "inference/grpc_service.pb.h"

namespace gpupool::client {
namespace {

std::optional<v1::ModelVersion> VersionOf(const v1::Model& model,
                                          uint64_t job_id) {
  for (const v1::ModelVersion& version : model.versions()) {
    if (version.job_id() == job_id) return version;
  }
  return std::nullopt;
}

std::string LabelOf(const v1::ModelVersion& version) {
  return absl::StrCat(version.model(), " version ", version.version());
}

// Tells the user why a version waits.
class WaitLine {
 public:
  explicit WaitLine(const Context& context) : context_(context) {}
  ~WaitLine() { Clear(); }
  WaitLine(const WaitLine&) = delete;
  WaitLine& operator=(const WaitLine&) = delete;

  void Show(const v1::ModelVersion& version) {
    const bool is_terminal = context_.err().is_terminal;
    if (version.error().empty() && !is_terminal) return;
    std::string text = absl::StrCat(
        LabelOf(version), " ",
        version.error().empty() ? "is being loaded" : version.error());
    if (is_terminal) {
      text.resize(std::min<size_t>(text.size(), context_.err().width));
      *context_.err().stream << "\r\x1b[K" << text << std::flush;
    } else if (!is_said_) {
      context_.Say(text);
    }
    is_said_ = true;
  }

 private:
  void Clear() const {
    if (!is_said_ || !context_.err().is_terminal) return;
    *context_.err().stream << "\r\x1b[K" << std::flush;
  }

  const Context& context_;
  bool is_said_ = false;
};

// Reads the version from the server again.
absl::Status Renew(Client& client, v1::ModelVersion& version) {
  v1::GetModelRequest request;
  request.set_name(version.model());
  const absl::StatusOr<v1::Model> model = client.GetModel(request);
  if (!model.ok()) return model.status();
  for (const v1::ModelVersion& now : model->versions()) {
    if (now.version() != version.version()) continue;
    version = now;
    return absl::OkStatus();
  }
  return absl::NotFoundError(
      absl::StrCat(LabelOf(version), " was deleted during the wait"));
}

// Returns whether the version answers requests. READY alone is not enough: the
// state is stored before requests are let in, and kept while a lost worker is
// being noticed or a restarted server finds its workers.
absl::StatusOr<bool> Answers(Client& client, const v1::ModelVersion& version) {
  if (version.state() != v1::READY) return false;
  inference::ModelReadyRequest request;
  request.set_name(version.model());
  request.set_version(absl::StrCat(version.version()));
  const auto response = client.ModelReady(request);
  if (!response.ok()) return response.status();
  return response->ready();
}

absl::Status StillLoading(const v1::ModelVersion& version,
                          absl::Duration timeout) {
  return absl::DeadlineExceededError(absl::StrCat(
      LabelOf(version), " is still loading after ", FormatSpan(timeout),
      version.error().empty() ? "" : absl::StrCat(": it ", version.error()),
      "; the load continues; `gpupool models unload ", version.model(), "/",
      version.version(), "` stops it"));
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
      if (version.has_value()) {
        const absl::StatusOr<bool> answers = Answers(client, *version);
        if (!answers.ok()) return answers.status();
        if (*answers || version->state() == v1::LOAD_FAILED) return *version;
        if (version->state() == v1::UNLOADED) {
          return absl::FailedPreconditionError(absl::StrCat(
              "the job succeeded, but ", LabelOf(*version),
              " is not loaded; see `gpupool logs ", job.id(), "`"));
        }
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

absl::StatusOr<v1::ModelVersion> AwaitServed(Context& context, Client& client,
                                             v1::ModelVersion version,
                                             absl::Duration timeout) {
  const absl::Time limit = absl::Now() + timeout;
  WaitLine line(context);
  while (!context.stop().stop_requested()) {
    const absl::StatusOr<bool> answers = Answers(client, version);
    if (!answers.ok()) return answers.status();
    if (*answers || version.state() == v1::LOAD_FAILED) return version;
    if (version.state() == v1::UNLOADED) {
      return absl::FailedPreconditionError(
          absl::StrCat(LabelOf(version), " was unloaded during the wait"));
    }
    line.Show(version);
    if (absl::Now() > limit) return StillLoading(version, timeout);
    absl::SleepFor(absl::Milliseconds(100));
    const absl::Status renewed = Renew(client, version);
    if (!renewed.ok()) return renewed;
  }
  return absl::CancelledError("stopped");
}

}  // namespace gpupool::client
