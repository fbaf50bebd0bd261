// gpupool logs: log lines and state changes of a job.
#include <CLI/App.hpp>
#include <memory>
#include <ostream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "client/cli/command/context.h"
#include "client/cli/command/exit_code.h"
#include "client/cli/command/job_argument.h"
#include "client/cli/command/verbs.h"
#include "client/cli/output/job_view.h"
#include "client/watch.h"

namespace gpupool::client {
namespace {

struct LogsOptions {
  std::string job;
  bool follow = false;
};

// Returns the line of an event, or "" for an event that is neither a log line
// nor a change of state.
std::string EventLine(const v1::JobEvent& event) {
  const std::string time = absl::FormatTime(
      "%Y-%m-%dT%H:%M:%E3SZ", ToTime(event.time()), absl::UTCTimeZone());
  if (event.has_log()) {
    return absl::StrFormat("%s %-7s %s", time,
                           v1::LogLine::Severity_Name(event.log().severity()),
                           event.log().text());
  }
  if (!event.has_state_change()) return "";
  const v1::StateChange& change = event.state_change();
  std::string text =
      absl::StrFormat("%s %-7s %s", time, "STATE", StateText(change.to()));
  if (!change.reason().empty()) absl::StrAppend(&text, ": ", change.reason());
  // The reason often contains the error already.
  if (change.has_error() &&
      !absl::StrContains(change.reason(), change.error().message())) {
    absl::StrAppend(&text, ": ", change.error().message());
  }
  return text;
}

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
  const absl::Status status =
      WatchJob(**client, job->id(), watch, [&](const v1::JobEvent& event) {
        const std::string line = EventLine(event);
        if (line.empty()) return true;
        *context.out().stream << (as_json ? MessageToJson(event, false) : line)
                              << std::endl;
        return true;
      });
  if (context.stop().stop_requested()) return kInterrupted;
  if (!status.ok() && !absl::IsCancelled(status)) return context.Fail(status);
  return kOk;
}

}  // namespace

void AddLogs(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<LogsOptions>();
  CLI::App* verb =
      AddVerb(app, "logs",
              "Print a job's log lines and changes of state. With -o json "
              "every line is one JSON object.",
              "  gpupool logs 7\n  gpupool logs digits -f");
  verb->add_option("JOB", options->job, kJobArgumentHelp)->required();
  verb->add_flag("-f,--follow", options->follow, "Continue until the job ends");
  invocation.On(verb, [options](Context& c) { return Logs(c, *options); });
}

}  // namespace gpupool::client
