// gpupool watch: follows an existing job.
#include <CLI/App.hpp>
#include <memory>
#include <ostream>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/cli/command/context.h"
#include "client/cli/command/exit_code.h"
#include "client/cli/command/job_argument.h"
#include "client/cli/command/verbs.h"
#include "client/cli/jobs/follow.h"
#include "client/cli/jobs/follow_array.h"
#include "client/cli/jobs/follow_view.h"
#include "client/cli/jobs/job_plot.h"
#include "client/cli/output/array_view.h"
#include "client/files/partial_file.h"

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

struct WatchArguments {
  std::string job;
  bool plot = false;
  std::string picture;  // file; empty: none
};

int Watch(Context& context, const WatchArguments& arguments) {
  if (arguments.plot && context.options().output == OutputFormat::kJson) {
    return context.Fail(absl::InvalidArgumentError(
        "--plot draws for people, and -o json is for programs; leave one of "
        "them out, or write the picture to a file with -O"));
  }
  const absl::StatusOr<Client*> client = context.client();
  if (!client.ok()) return context.Fail(client.status());
  const absl::StatusOr<JobOrArray> found =
      FindJobOrArray(**client, arguments.job);
  if (!found.ok()) return context.Fail(found.status());
  if (const auto* array = std::get_if<v1::JobArray>(&*found)) {
    if (arguments.plot || !arguments.picture.empty()) {
      return context.Fail(absl::InvalidArgumentError(
          absl::StrCat("array ", array->id(),
                       " has no curves of its own; name one of its "
                       "tasks, such as ",
                       array->id(), "_0")));
    }
    return WatchArray(context, **client, *array);
  }
  const v1::Job* job = &std::get<v1::Job>(*found);
  const bool as_json = context.options().output == OutputFormat::kJson;
  const bool as_yaml = context.options().output == OutputFormat::kYaml;
  JobCurves curves;
  const absl::StatusOr<v1::Job> ended = FollowJob(
      context, **client, *job,
      {.events_as_json = as_json,
       .progress_on_err = as_yaml,
       .take_events = [&](const v1::JobEvent& event) { curves.OnEvent(event); },
       .curves = arguments.plot ? &curves : nullptr});
  if (!arguments.picture.empty()) {
    const absl::Status written = WriteWholeFile(
        arguments.picture,
        PlotPicture(curves, absl::StrCat("job ", job->id(), " (",
                                         job->spec().name(), ")")));
    if (!written.ok()) return context.Fail(written);
    context.Say(
        absl::StrCat(arguments.picture, ": the curves of job ", job->id()));
  }
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
  auto arguments = std::make_shared<WatchArguments>();
  CLI::App* verb = AddVerb(
      app, "watch",
      "Follow a job to its end, from its first event, through lost "
      "connections. Has the exit codes of `run`. With -o json every event is "
      "one line of JSON.",
      "  gpupool watch 7\n"
      "  gpupool watch 7 --plot\n"
      "  gpupool watch digits -O curves.svg\n"
      "  gpupool watch digits -o json | jq -c 'select(.progress).progress'");
  verb->add_option("JOB", arguments->job, kJobOrArrayHelp)->required();
  verb->add_flag("--plot", arguments->plot,
                 "Draw the loss and what evaluations find: on a terminal while "
                 "the job runs, elsewhere at the end");
  verb->add_option("-O,--file", arguments->picture,
                   "Write these curves to a picture (SVG) at the end")
      ->type_name("FILE");
  invocation.On(verb, [arguments](Context& c) { return Watch(c, *arguments); });
}

}  // namespace gpupool::client
