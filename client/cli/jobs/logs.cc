// gpupool logs: log lines, losses and state changes of a job.
#include <CLI/App.hpp>
#include <memory>
#include <ostream>

#include "client/cli/command/context.h"
#include "client/cli/command/exit_code.h"
#include "client/cli/command/job_argument.h"
#include "client/cli/command/verbs.h"
#include "client/cli/jobs/log_lines.h"
#include "client/watch.h"

namespace gpupool::client {
namespace {

struct LogsOptions {
  std::string job;
  bool follow = false;
  bool all = false;
};

int Logs(Context& context, const LogsOptions& options) {
  const absl::StatusOr<Client*> client = context.client();
  if (!client.ok()) return context.Fail(client.status());
  const absl::StatusOr<v1::Job> job = FindJob(**client, options.job);
  if (!job.ok()) return context.Fail(job.status());
  // The stream of an ended job ends by itself.
  WatchOptions watch;
  watch.stored_only = !options.follow;
  watch.stop = context.stop();
  const bool as_json = context.options().output == OutputFormat::kJson;
  const auto print = [&](const std::vector<v1::JobEvent>& events) {
    for (const v1::JobEvent& event : events) {
      *context.out().stream
          << (as_json ? MessageToJson(event, false) : LogText(event))
          << std::endl;
    }
    return true;
  };
  LogEvents log(options.all);
  const absl::Status status = WatchJob(
      **client, job->id(), watch,
      [&](const v1::JobEvent& event) { return print(log.Take(event)); });
  print(log.End());
  if (context.stop().stop_requested()) return kInterrupted;
  if (!status.ok() && !absl::IsCancelled(status)) return context.Fail(status);
  return kOk;
}

}  // namespace

void AddLogs(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<LogsOptions>();
  CLI::App* verb =
      AddVerb(app, "logs",
              "Print a job's log lines, losses, evaluations, checkpoints and "
              "changes of state. Prints one loss for every ten seconds. "
              "With -o json every line is one JSON object.",
              "  gpupool logs 7\n  gpupool logs digits -f");
  verb->add_option("JOB", options->job, kJobArgumentHelp)->required();
  verb->add_flag("-f,--follow", options->follow, "Continue until the job ends");
  verb->add_flag("-a,--all", options->all,
                 "Print every loss that was reported");
  invocation.On(verb, [options](Context& c) { return Logs(c, *options); });
}

}  // namespace gpupool::client
