// gpupool models rollback: serves an older version of a model again, and then
// unloads the newer ones. Requests are answered all the time.
#include <CLI/App.hpp>
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/cli/command/context.h"
#include "client/cli/command/exit_code.h"
#include "client/cli/command/verbs.h"
#include "client/cli/models/model_view.h"
#include "client/cli/models/wait_version.h"
#include "client/text/units.h"

namespace gpupool::client {
namespace {

struct RollbackOptions {
  std::string name;
  std::string timeout;
  bool wait = false;
};

struct Rollback {
  v1::ModelVersion target;
  // Newer versions that are not served yet.
  std::vector<v1::ModelVersion> loading;
  // Newer versions that are served, by rising number: unloading the last one
  // switches the requests to the target.
  std::vector<v1::ModelVersion> served;
};

// Returns the number of the newest version that is served, or 0.
uint64_t ServedVersion(const v1::Model& model) {
  uint64_t newest = 0;
  for (const v1::ModelVersion& version : model.versions()) {
    if (version.state() != v1::READY) continue;
    newest = std::max(newest, version.version());
  }
  return newest;
}

// Returns the version to go back to: that number or, for 0, the newest below
// the served version. Null when there is none.
const v1::ModelVersion* FindTarget(const v1::Model& model, uint64_t served,
                                   uint64_t number) {
  const v1::ModelVersion* target = nullptr;
  for (const v1::ModelVersion& version : model.versions()) {
    if (number != 0 ? version.version() != number
                    : version.version() >= served ||
                          version.state() == v1::LOAD_FAILED) {
      continue;
    }
    if (target == nullptr || target->version() < version.version()) {
      target = &version;
    }
  }
  return target;
}

absl::StatusOr<Rollback> Choose(const v1::Model& model, uint64_t number) {
  const uint64_t served = ServedVersion(model);
  if (served == 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        "no version of '", model.name(),
        "' is served, so there is none to go back from; serve one with "
        "`gpupool models load ",
        model.name(), "/VERSION`"));
  }
  const v1::ModelVersion* target = FindTarget(model, served, number);
  if (target == nullptr && number != 0) {
    return absl::NotFoundError(
        absl::StrCat("model '", model.name(), "' has no version ", number));
  }
  if (target == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("'", model.name(), "' has no version before ", served,
                     " that could be loaded"));
  }
  if (target->version() > served) {
    return absl::InvalidArgumentError(absl::StrCat(
        model.name(), " version ", target->version(), " is newer than version ",
        served, ", which is served; load it with `gpupool models load ",
        model.name(), "/", target->version(), "`"));
  }
  Rollback rollback = {.target = *target};
  for (const v1::ModelVersion& version : model.versions()) {
    if (version.version() <= target->version()) continue;
    if (version.state() == v1::LOADING) rollback.loading.push_back(version);
    if (version.state() == v1::READY) rollback.served.push_back(version);
  }
  std::sort(rollback.served.begin(), rollback.served.end(),
            [](const v1::ModelVersion& a, const v1::ModelVersion& b) {
              return a.version() < b.version();
            });
  return rollback;
}

absl::StatusOr<v1::Model> GetModel(Client& client, const std::string& name) {
  v1::GetModelRequest request;
  request.set_name(name);
  return client.GetModel(request);
}

// Loads the version, and waits until it answers requests.
absl::StatusOr<v1::ModelVersion> LoadTarget(Context& context, Client& client,
                                            const Rollback& rollback,
                                            absl::Duration timeout) {
  v1::LoadVersionRequest request;
  request.set_model(rollback.target.model());
  request.set_version(rollback.target.version());
  request.set_device(rollback.target.wanted_device());
  auto version = client.LoadVersion(request);
  if (!version.ok()) return version;
  version = AwaitServed(context, client, *std::move(version), timeout);
  if (absl::IsDeadlineExceeded(version.status()) && !rollback.served.empty()) {
    return absl::DeadlineExceededError(absl::StrCat(
        version.status().message(), "; version ",
        rollback.served.back().version(),
        " still answers, and the device has to hold both for a moment"));
  }
  return version;
}

absl::Status UnloadAll(Client& client,
                       const std::vector<v1::ModelVersion>& versions,
                       bool wait) {
  for (const v1::ModelVersion& version : versions) {
    v1::UnloadVersionRequest request;
    request.set_model(version.model());
    request.set_version(version.version());
    request.set_wait(wait);
    const auto unloaded = client.UnloadVersion(request);
    if (!unloaded.ok()) return unloaded.status();
  }
  return absl::OkStatus();
}

// Returns an error when the target was replaced while it was waited for, so
// that unloading the newer versions would leave none.
absl::Status CheckStillServed(Client& client, const v1::ModelVersion& target) {
  const absl::StatusOr<v1::Model> model = GetModel(client, target.model());
  if (!model.ok()) return model.status();
  for (const v1::ModelVersion& version : model->versions()) {
    if (version.version() != target.version()) continue;
    if (version.state() == v1::READY) return absl::OkStatus();
  }
  return absl::AbortedError(absl::StrCat(
      target.model(), " version ", target.version(),
      " was replaced by a newer version, which now answers; try again"));
}

// Says what becomes of the versions that were unloaded.
void SayUnloaded(Context& context,
                 const std::vector<v1::ModelVersion>& versions, bool wait) {
  for (const v1::ModelVersion& version : versions) {
    context.Say(absl::StrCat(version.model(), " version ", version.version(),
                             " is ", wait ? "unloaded" : "being unloaded",
                             " and stays stored; `gpupool models delete ",
                             version.model(), "/", version.version(),
                             "` removes it"));
  }
}

int RollBack(Context& context, const RollbackOptions& options) {
  const absl::StatusOr<VersionName> name = ParseVersionName(options.name);
  if (!name.ok()) return context.Fail(name.status());
  const absl::StatusOr<Client*> client = context.client();
  if (!client.ok()) return context.Fail(client.status());
  absl::Duration timeout = (*client)->options().wait_timeout;
  if (!options.timeout.empty()) {
    const absl::StatusOr<absl::Duration> span = ParseSpan(options.timeout);
    if (!span.ok()) return context.Fail(span.status());
    timeout = *span;
  }
  const absl::StatusOr<v1::Model> model = GetModel(**client, name->model);
  if (!model.ok()) return context.Fail(model.status());
  const absl::StatusOr<Rollback> rollback = Choose(*model, name->version);
  if (!rollback.ok()) return context.Fail(rollback.status());
  // A newer version that became ready meanwhile would replace the target.
  absl::Status unloaded = UnloadAll(**client, rollback->loading, options.wait);
  if (!unloaded.ok()) return context.Fail(unloaded);
  SayUnloaded(context, rollback->loading, options.wait);
  const auto version = LoadTarget(context, **client, *rollback, timeout);
  if (absl::IsCancelled(version.status())) return kInterrupted;
  if (!version.ok()) return context.Fail(version.status());
  // The newer versions go on answering.
  if (version->state() != v1::READY) return ReportVersion(context, *version);
  unloaded = CheckStillServed(**client, *version);
  if (unloaded.ok()) {
    unloaded = UnloadAll(**client, rollback->served, options.wait);
  }
  if (!unloaded.ok()) return context.Fail(unloaded);
  SayUnloaded(context, rollback->served, options.wait);
  return ReportVersion(context, *version);
}

}  // namespace

void AddModelsRollback(CLI::App& models, Invocation& invocation) {
  auto options = std::make_shared<RollbackOptions>();
  CLI::App* verb = AddVerb(
      models, "rollback",
      "Serve the version before the newest served one again (or the version "
      "that is named), then unload the newer ones. Requests are answered all "
      "the time.",
      "  gpupool models rollback digits\n"
      "  gpupool models rollback digits/3 --wait");
  verb->add_option("MODEL", options->name, "MODEL or MODEL/VERSION")
      ->required();
  verb->add_flag("--wait", options->wait,
                 "Return only when the memory of the newer ones is free");
  verb->add_option("--timeout", options->timeout,
                   "How long the older version may take to be served "
                   "(default: 5m)")
      ->type_name("DURATION");
  invocation.On(verb, [options](Context& c) { return RollBack(c, *options); });
}

}  // namespace gpupool::client
