// gpupool models: list, get, share, promote, load, unload, delete; rollback,
// check, upload, plan, profile, export, infer and named have their own files.
#include <CLI/App.hpp>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/cli/command/context.h"
#include "client/cli/command/exit_code.h"
#include "client/cli/command/job_argument.h"
#include "client/cli/command/verbs.h"
#include "client/cli/models/model_view.h"
#include "client/cli/models/served_sizes.h"
#include "client/cli/models/wait_version.h"
#include "client/text/units.h"

namespace gpupool::client {
namespace {

constexpr const char* kVersionHelp =
    "MODEL or MODEL/VERSION, for example digits/3";

void SayIdle(Context& context, const v1::Model& model) {
  for (const std::string& text : IdleVersions(model)) {
    context.Say(absl::StrCat("note: ", text));
  }
}

int List(Context& context) {
  const absl::StatusOr<Client*> client = context.client();
  if (!client.ok()) return context.Fail(client.status());
  v1::ListModelsRequest request;
  request.set_page_size(1000);
  v1::ListModelsResponse all;
  do {
    auto page = (*client)->ListModels(request);
    if (!page.ok()) return context.Fail(page.status());
    all.mutable_models()->MergeFrom(page->models());
    request.set_page_token(page->next_page_token());
  } while (!request.page_token().empty());
  context.Print(all, [&] {
    PrintVersions(context.out(), context.headers(), all, absl::Now());
    for (const v1::Model& model : all.models()) SayIdle(context, model);
  });
  return kOk;
}

int Get(Context& context, const std::string& name) {
  const absl::StatusOr<Client*> client = context.client();
  if (!client.ok()) return context.Fail(client.status());
  v1::GetModelRequest request;
  request.set_name(name);
  const absl::StatusOr<v1::Model> model = (*client)->GetModel(request);
  if (!model.ok()) return context.Fail(model.status());
  context.Print(*model, [&] {
    v1::ListModelsResponse one;
    *one.add_models() = *model;
    PrintVersions(context.out(), context.headers(), one, absl::Now());
    SayIdle(context, *model);
    for (const v1::ModelVersion& version : model->versions()) {
      for (const std::string& warning : version.plan().warnings()) {
        context.Say(absl::StrCat("warning: ", version.model(), "/",
                                 version.version(), ": ", warning));
      }
    }
  });
  return kOk;
}

struct ShareOptions {
  std::string name;
  bool off = false;
};

int Share(Context& context, const ShareOptions& options) {
  const absl::StatusOr<Client*> client = context.client();
  if (!client.ok()) return context.Fail(client.status());
  v1::ShareModelRequest request;
  request.set_name(options.name);
  request.set_off(options.off);
  const absl::StatusOr<v1::Model> model = (*client)->ShareModel(request);
  if (!model.ok()) return context.Fail(model.status());
  context.Print(*model, [&] {
    context.Say(model->shared()
                    ? absl::StrCat("every tenant may use ", options.name,
                                   "; tenant ", model->tenant(), " changes it")
                    : absl::StrCat(options.name, " is for tenant ",
                                   model->tenant(), " alone"));
  });
  return kOk;
}

int Report(Context& context, const absl::StatusOr<v1::ModelVersion>& version) {
  if (!version.ok()) return context.Fail(version.status());
  return ReportVersion(context, *version);
}

struct ServedOptions {
  bool wait = false;
  std::string timeout;
};

// Waits until the version is served, if the options ask for that.
int ReportServed(Context& context, Client& client,
                 absl::StatusOr<v1::ModelVersion> version,
                 const ServedOptions& options) {
  if (!options.wait || !version.ok()) return Report(context, version);
  absl::Duration timeout = client.options().wait_timeout;
  if (!options.timeout.empty()) {
    const absl::StatusOr<absl::Duration> span = ParseSpan(options.timeout);
    if (!span.ok()) return context.Fail(span.status());
    timeout = *span;
  }
  version = AwaitServed(context, client, *std::move(version), timeout);
  if (absl::IsCancelled(version.status())) return kInterrupted;
  return Report(context, version);
}

void AddServedOptions(CLI::App* verb, ServedOptions& options) {
  verb->add_flag("--wait", options.wait, "Return only when it is served");
  verb->add_option("--timeout", options.timeout,
                   "How long to wait with --wait (default: 5m)")
      ->type_name("DURATION");
}

// Returns the checkpoint that a version was made from.
std::string CheckpointText(const v1::ModelVersion& version) {
  std::string text = absl::StrCat(
      version.model(), " version ", version.version(), " is the ",
      version.best_checkpoint() ? "best " : "", "checkpoint of job ",
      version.job_id(), ", step ", version.step());
  if (version.has_held_out_loss()) {
    absl::StrAppend(&text, ", held-out loss ", version.held_out_loss());
  }
  return text;
}

struct PromoteOptions {
  std::string job;
  std::string model;
  std::optional<uint64_t> step;
  uint32_t max_batch_size = 0;
  uint32_t max_queue_delay_microseconds = 0;
  ServedOptions served;
};

int Promote(Context& context, const PromoteOptions& options) {
  const absl::StatusOr<Client*> client = context.client();
  if (!client.ok()) return context.Fail(client.status());
  const absl::StatusOr<v1::Job> job = FindJob(**client, options.job);
  if (!job.ok()) return context.Fail(job.status());
  v1::PromoteCheckpointRequest request;
  request.set_job_id(job->id());
  if (options.step.has_value()) request.set_step(*options.step);
  request.set_model(options.model);
  // Unless options are given, the version has those of the job.
  if (options.max_batch_size > 0 || options.max_queue_delay_microseconds > 0) {
    v1::ServingOptions& serving = *request.mutable_serving();
    serving.set_max_batch_size(options.max_batch_size);
    serving.set_max_queue_delay_microseconds(
        options.max_queue_delay_microseconds);
  }
  const auto version = (*client)->PromoteCheckpoint(request);
  if (version.ok()) context.Say(CheckpointText(*version));
  return ReportServed(context, **client, version, options.served);
}

struct VersionOptions {
  std::string name;
  bool wait = false;
};

struct LoadOptions {
  std::string name;
  std::string device;
  ServedOptions served;
};

template <typename Request>
absl::StatusOr<Request> MakeVersionRequest(const std::string& text) {
  const absl::StatusOr<VersionName> name = ParseVersionName(text);
  if (!name.ok()) return name.status();
  Request request;
  request.set_model(name->model);
  request.set_version(name->version);
  return request;
}

int Load(Context& context, const LoadOptions& options) {
  auto request = MakeVersionRequest<v1::LoadVersionRequest>(options.name);
  if (!request.ok()) return context.Fail(request.status());
  const absl::StatusOr<Client*> client = context.client();
  if (!client.ok()) return context.Fail(client.status());
  request->set_device(options.device);
  return ReportServed(context, **client, (*client)->LoadVersion(*request),
                      options.served);
}

int Unload(Context& context, const VersionOptions& options) {
  auto request = MakeVersionRequest<v1::UnloadVersionRequest>(options.name);
  if (!request.ok()) return context.Fail(request.status());
  const absl::StatusOr<Client*> client = context.client();
  if (!client.ok()) return context.Fail(client.status());
  request->set_wait(options.wait);
  return Report(context, (*client)->UnloadVersion(*request));
}

int Delete(Context& context, const VersionOptions& options) {
  auto request = MakeVersionRequest<v1::DeleteVersionRequest>(options.name);
  if (!request.ok()) return context.Fail(request.status());
  if (request->version() == 0) {
    return context.Fail(absl::InvalidArgumentError(absl::StrCat(
        "name the version to delete, for example ", options.name, "/1")));
  }
  const absl::StatusOr<Client*> client = context.client();
  if (!client.ok()) return context.Fail(client.status());
  const auto deleted = (*client)->DeleteVersion(*request);
  if (!deleted.ok()) return context.Fail(deleted.status());
  context.Print(*deleted, [&] {
    context.Say(absl::StrCat(options.name, " is deleted"));
  });
  return kOk;
}

void AddPromote(CLI::App& models, Invocation& invocation) {
  auto options = std::make_shared<PromoteOptions>();
  CLI::App* verb = AddVerb(
      models, "promote",
      "Make a new version of a model from a job's checkpoint and load it.",
      "  gpupool models promote 7 --wait\n"
      "  gpupool models promote 7 --step 500 --model digits-early");
  verb->add_option("JOB", options->job, kJobArgumentHelp)->required();
  verb->add_option("--step", options->step,
                   "Step of the checkpoint (default: the best if the job keeps "
                   "best checkpoints, else the newest)")
      ->type_name("N");
  verb->add_option("--model", options->model,
                   "Name of the model (default: the job's publish.model, else "
                   "the job's name)")
      ->type_name("NAME");
  AddMaxBatchSize(*verb, options->max_batch_size);
  verb->add_option("--max-queue-delay-microseconds",
                   options->max_queue_delay_microseconds,
                   "How long a request may wait to share a batch (default: 0)")
      ->type_name("N");
  AddServedOptions(verb, options->served);
  invocation.On(verb, [options](Context& c) { return Promote(c, *options); });
}

void AddShare(CLI::App& models, Invocation& invocation) {
  auto options = std::make_shared<ShareOptions>();
  CLI::App* verb =
      AddVerb(models, "share",
              "Let every tenant use a model. Its own tenant alone changes it.",
              "  gpupool models share digits\n"
              "  gpupool models share digits --off");
  verb->add_option("MODEL", options->name, "Name of the model")->required();
  verb->add_flag("--off", options->off,
                 "Keep the model for its own tenant again");
  invocation.On(verb, [options](Context& c) { return Share(c, *options); });
}

void AddVersionVerb(CLI::App* verb, Invocation& invocation,
                    const char* wait_help,
                    int (*command)(Context&, const VersionOptions&)) {
  auto options = std::make_shared<VersionOptions>();
  verb->add_option("MODEL", options->name, kVersionHelp)->required();
  if (wait_help != nullptr) {
    verb->add_flag("--wait", options->wait, wait_help);
  }
  invocation.On(
      verb, [options, command](Context& c) { return command(c, *options); });
}

void AddLoad(CLI::App& models, Invocation& invocation) {
  auto options = std::make_shared<LoadOptions>();
  CLI::App* verb =
      AddVerb(models, "load",
              "Serve a version (default: the newest). Loading a served "
              "version changes nothing.",
              "  gpupool models load digits --wait\n"
              "  gpupool models load digits/3 --device cuda:1");
  verb->add_option("MODEL", options->name, kVersionHelp)->required();
  verb->add_option("--device", options->device,
                   "A device (cuda:1), a kind (cuda, cpu) or any (default: the "
                   "GPUs, if there are any)")
      ->type_name("DEVICE");
  AddServedOptions(verb, options->served);
  invocation.On(verb, [options](Context& c) { return Load(c, *options); });
}

}  // namespace

void AddModels(CLI::App& app, Invocation& invocation) {
  CLI::App* models =
      AddVerb(app, "models", "List, serve and use models and their versions.",
              "  gpupool models list");
  models->require_subcommand(1);
  invocation.On(AddVerb(*models, "list", "List models and their versions.",
                        "  gpupool models list -o json"),
                List);
  auto name = std::make_shared<std::string>();
  CLI::App* get = AddVerb(*models, "get", "Show one model's versions.",
                          "  gpupool models get digits");
  get->add_option("MODEL", *name, "Name of the model")->required();
  invocation.On(get, [name](Context& c) { return Get(c, *name); });
  AddShare(*models, invocation);
  AddPromote(*models, invocation);
  AddLoad(*models, invocation);
  AddVersionVerb(
      AddVerb(*models, "unload",
              "Stop serving a version (default: all). Requests in flight "
              "finish first.",
              "  gpupool models unload digits/1 --wait"),
      invocation, "Return only when its memory is free", Unload);
  AddVersionVerb(
      AddVerb(*models, "delete", "Delete an unloaded version for good.",
              "  gpupool models delete digits/1"),
      invocation, nullptr, Delete);
  AddModelsRollback(*models, invocation);
  AddModelsCheck(*models, invocation);
  AddModelsFiles(*models, invocation);
  AddModelsInfer(*models, invocation);
  AddModelsNamed(*models, invocation);
  AddModelsProfile(*models, invocation);
}

}  // namespace gpupool::client
