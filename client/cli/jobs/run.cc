// gpupool run: submit and follow; the exit code is the job's.
#include <CLI/App.hpp>
#include <memory>
#include <optional>
#include <ostream>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/cli/command/context.h"
#include "client/cli/command/exit_code.h"
#include "client/cli/command/verbs.h"
#include "client/cli/jobs/follow.h"
#include "client/cli/jobs/follow_array.h"
#include "client/cli/jobs/follow_view.h"
#include "client/cli/jobs/submit_job.h"
#include "client/cli/models/wait_version.h"
#include "client/cli/output/array_view.h"

namespace gpupool::client {
namespace {

// Waits for the version that the job publishes, and reports the result.
int AwaitPublished(Context& context, Client& client, const v1::Job& job) {
  const absl::StatusOr<v1::ModelVersion> version =
      WaitForJobVersion(client, job, context.stop());
  if (!version.ok()) return context.Fail(version.status());
  const std::string name =
      absl::StrCat(version->model(), " version ", version->version());
  if (version->state() != v1::READY) {
    return context.Fail(absl::FailedPreconditionError(
        absl::StrCat("the job succeeded, but ", name,
                     " cannot be served: ", version->error())));
  }
  context.Say(
      absl::StrCat("  published: ", name, ", ready on ", version->device()));
  return kOk;
}

int FollowTasks(Context& context, Client& client, const v1::JobArray& array) {
  context.Say(absl::StrCat("array ", array.id(), " (", array.spec().name(),
                           ") is taken: ", TasksText(array),
                           "; Ctrl-C leaves it running"));
  const auto ended =
      FollowArray(client, array, context.stop(), [&](const auto& now) {
        context.Say(absl::StrCat("  ", CountsText(now)));
      });
  if (absl::IsCancelled(ended.status())) return kInterrupted;
  if (!ended.ok()) return context.Fail(ended.status());
  context.Print(*ended,
                [&] { PrintArray(context.out(), *ended, absl::Now()); });
  return ExitCodeFor(StateOf(*ended));
}

int Run(Context& context, const SubmitOptions& options) {
  const absl::StatusOr<Client*> client = context.client();
  if (!client.ok()) return context.Fail(client.status());
  const absl::StatusOr<JobOrArray> taken =
      SubmitFile(context, **client, options);
  if (!taken.ok()) return context.Fail(taken.status());
  if (const auto* array = std::get_if<v1::JobArray>(&*taken)) {
    return FollowTasks(context, **client, *array);
  }
  const v1::Job* job = &std::get<v1::Job>(*taken);
  context.Say(absl::StrCat("job ", job->id(), " (", job->spec().name(),
                           ") is taken; Ctrl-C leaves it running"));
  const bool for_programs = context.options().output != OutputFormat::kTable;
  const absl::StatusOr<v1::Job> ended =
      FollowJob(context, **client, *job, {.progress_on_err = for_programs});
  if (absl::IsCancelled(ended.status())) return kInterrupted;
  if (!ended.ok()) return context.Fail(ended.status());
  context.Print(*ended, [&] {
    *context.out().stream << JobSummary(context.out(), *ended, absl::Now());
    context.out().stream->flush();
  });
  if (ended->state() == v1::SUCCEEDED && ended->spec().publish().on_success()) {
    return AwaitPublished(context, **client, *ended);
  }
  return ExitCodeFor(ended->state());
}

}  // namespace

void AddRun(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<SubmitOptions>();
  CLI::App* verb = AddVerb(
      app, "run",
      "Submit a job and follow it to its end. Exits with 0 when the job "
      "succeeds (and its model, if it publishes one, is served), with 1 when "
      "it fails.",
      "  gpupool run examples/digits.yaml --data examples/data/digits.csv.gz\n"
      "  gpupool run job.yaml -o json > result.json");
  AddSubmitOptions(*verb, *options);
  invocation.On(verb, [options](Context& c) { return Run(c, *options); });
}

}  // namespace gpupool::client
