// gpupool logs: log lines, losses and state changes of a job, or its curves as
// a file for TensorBoard or as a run of an MLflow server.
#include <CLI/App.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>

#include "absl/strings/str_cat.h"
#include "client/cli/command/context.h"
#include "client/cli/command/exit_code.h"
#include "client/cli/command/job_argument.h"
#include "client/cli/command/verbs.h"
#include "client/cli/jobs/job_scalars.h"
#include "client/cli/jobs/log_lines.h"
#include "client/cli/jobs/log_mlflow.h"
#include "client/cli/jobs/log_source.h"
#include "client/cli/mlflow/tracking_url.h"
#include "client/files/event_file.h"
#include "client/text/counted.h"
#include "client/watch.h"

namespace gpupool::client {
namespace {

struct LogsOptions {
  std::string job;
  bool follow = false;
  bool all = false;
  // At most one of these is set. Otherwise lines are printed.
  std::string tensorboard;  // folder
  MlflowOptions mlflow;
};

// Returns the exit code of a watch that ended with `status`.
int ExitCodeOfWatch(const Context& context, const absl::Status& status) {
  if (context.stop().stop_requested()) return kInterrupted;
  if (!status.ok() && !absl::IsCancelled(status)) return context.Fail(status);
  return kOk;
}

// Prints what was written and how to look at it.
void PrintWritten(const Context& context, const EventFile& file,
                  const JobScalars& scalars, const std::string& folder) {
  std::ostream& out = *context.out().stream;
  if (context.options().output == OutputFormat::kTable) {
    out << file.path() << ": " << Counted(scalars.count(), "point") << " of "
        << Counted(scalars.curves().size(), "curve")
        << "; see them with `tensorboard --logdir " << folder << "`\n";
    return;
  }
  // JSON is YAML, so one form serves both.
  const nlohmann::ordered_json json = {{"file", file.path()},
                                       {"points", scalars.count()},
                                       {"curves", scalars.curves()}};
  out << json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace)
      << "\n";
}

int WriteCurves(Context& context, const LogSource& read,
                const LogsOptions& options) {
  const uint64_t job = read.job.id();
  absl::StatusOr<EventFile> file = EventFile::Create(options.tensorboard, job);
  if (!file.ok()) return context.Fail(file.status());
  if (options.follow) {
    context.Say(
        absl::StrCat("writing ", file->path(), " until job ", job, " ends"));
  }
  JobScalars scalars;
  absl::Status written;
  const absl::Status status =
      WatchJob(*read.client, job, read.watch, [&](const v1::JobEvent& event) {
        const std::optional<ScalarEvent> taken = scalars.Take(event);
        if (taken.has_value()) written = file->Append(*taken);
        return written.ok();
      });
  if (!written.ok()) return context.Fail(written);
  PrintWritten(context, *file, scalars, options.tensorboard);
  return ExitCodeOfWatch(context, status);
}

int PrintLines(Context& context, const LogSource& read,
               const LogsOptions& options) {
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
      *read.client, read.job.id(), read.watch,
      [&](const v1::JobEvent& event) { return print(log.Take(event)); });
  print(log.End());
  return ExitCodeOfWatch(context, status);
}

int Logs(Context& context, const LogsOptions& options) {
  const absl::StatusOr<Client*> client = context.client();
  if (!client.ok()) return context.Fail(client.status());
  const absl::StatusOr<v1::Job> job = FindJob(**client, options.job);
  if (!job.ok()) return context.Fail(job.status());
  LogSource read{*client, *job, {}};
  // The stream of an ended job ends by itself.
  read.watch.stored_only = !options.follow;
  read.watch.stop = context.stop();
  if (!options.tensorboard.empty()) return WriteCurves(context, read, options);
  if (!options.mlflow.url.empty()) {
    return SendToMlflow(context, read, options.mlflow);
  }
  return PrintLines(context, read, options);
}

// Refuses an empty name, which would look like no option.
std::string CheckFolderName(const std::string& name) {
  return name.empty() ? "name a folder" : "";
}

std::string CheckUrl(const std::string& text) {
  return std::string(ParseTrackingUrl(text).status().message());
}

std::string CheckExperimentName(const std::string& name) {
  return name.empty() ? "name an experiment" : "";
}

// Adds the options that send curves elsewhere instead of printing lines.
void AddTargets(CLI::App& verb, LogsOptions& options) {
  CLI::Option* tensorboard =
      verb.add_option("--tensorboard", options.tensorboard,
                      "Write the job's curves to a file for TensorBoard in "
                      "this folder, instead of printing lines; with -f the "
                      "file grows until the job ends")
          ->check(CheckFolderName)
          ->type_name("DIR");
  CLI::Option* mlflow =
      verb.add_option("--mlflow", options.mlflow.url,
                      "Send the job's curves and parameters to this MLflow "
                      "tracking server, instead of printing lines; with -f "
                      "until the job ends")
          ->check(CheckUrl)
          ->type_name("URL")
          ->excludes(tensorboard);
  verb.add_option("--experiment", options.mlflow.experiment,
                  absl::StrCat("The experiment of MLflow, which is created if "
                               "there is none; default ",
                               kDefaultExperiment))
      ->check(CheckExperimentName)
      ->type_name("NAME")
      ->needs(mlflow);
}

}  // namespace

void AddLogs(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<LogsOptions>();
  CLI::App* verb =
      AddVerb(app, "logs",
              "Print a job's log lines, losses, evaluations, checkpoints and "
              "changes of state. Prints one loss for every ten seconds. "
              "With -o json every line is one JSON object.",
              "  gpupool logs 7\n"
              "  gpupool logs digits -f\n"
              "  gpupool logs digits --tensorboard runs/digits\n"
              "  gpupool logs digits -f --mlflow http://localhost:5000");
  verb->add_option("JOB", options->job, kJobArgumentHelp)->required();
  verb->add_flag("-f,--follow", options->follow, "Continue until the job ends");
  verb->add_flag("-a,--all", options->all,
                 "Print every loss that was reported");
  AddTargets(*verb, *options);
  invocation.On(verb, [options](Context& c) { return Logs(c, *options); });
}

}  // namespace gpupool::client
