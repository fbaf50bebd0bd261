// gpupool watch: follows an existing job.
#include <CLI/App.hpp>
#include <memory>
#include <ostream>

#include "absl/time/clock.h"
#include "client/cli/command/context.h"
#include "client/cli/command/exit_code.h"
#include "client/cli/command/job_argument.h"
#include "client/cli/command/verbs.h"
#include "client/cli/jobs/follow.h"
#include "client/cli/jobs/follow_array.h"
#include "client/cli/jobs/follow_view.h"
#include "client/cli/output/array_view.h"

namespace gpupool::client {
namespace {

int WatchArray(Context& context, Client& client, const v1::JobArray& array) {
  const bool as_json = context.options().output == OutputFormat::kJson;
  const auto ended =
      FollowArray(client, array, context.stop(), [&](const v1::JobArray& now) {
        if (as_json) {
          *context.out().stream << MessageToJson(now, false) << std::endl;
        } else {
          context.Say(CountsText(now));
        }
      });
  if (absl::IsCancelled(ended.status())) return kInterrupted;
  if (!ended.ok()) return context.Fail(ended.status());
  if (!as_json) {
    context.Print(*ended,
                  [&] { PrintArray(context.out(), *ended, absl::Now()); });
  }
  return ExitCodeFor(StateOf(*ended));
}

int Watch(Context& context, const std::string& text) {
  const absl::StatusOr<Client*> client = context.client();
  if (!client.ok()) return context.Fail(client.status());
  const absl::StatusOr<JobOrArray> found = FindJobOrArray(**client, text);
  if (!found.ok()) return context.Fail(found.status());
  if (const auto* array = std::get_if<v1::JobArray>(&*found)) {
    return WatchArray(context, **client, *array);
  }
  const v1::Job* job = &std::get<v1::Job>(*found);
  const bool as_json = context.options().output == OutputFormat::kJson;
  const bool as_yaml = context.options().output == OutputFormat::kYaml;
  const absl::StatusOr<v1::Job> ended =
      FollowJob(context, **client, *job,
                {.events_as_json = as_json, .progress_on_err = as_yaml});
  if (absl::IsCancelled(ended.status())) return kInterrupted;
  if (!ended.ok()) return context.Fail(ended.status());
  if (!as_json) {
    context.Print(*ended, [&] {
      *context.out().stream << JobSummary(context.out(), *ended, absl::Now());
    });
  }
  return ExitCodeFor(ended->state());
}

}  // namespace

void AddWatch(CLI::App& app, Invocation& invocation) {
  auto job = std::make_shared<std::string>();
  CLI::App* verb = AddVerb(
      app, "watch",
      "Follow a job to its end, from its first event, through lost "
      "connections. Has the exit codes of `run`. With -o json every event is "
      "one line of JSON.",
      "  gpupool watch 7\n"
      "  gpupool watch digits -o json | jq -c 'select(.progress).progress'");
  verb->add_option("JOB", *job, kJobOrArrayHelp)->required();
  invocation.On(verb, [job](Context& c) { return Watch(c, *job); });
}

}  // namespace gpupool::client
