#include "client/cli/jobs/log_mlflow.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>

#include "absl/strings/str_cat.h"
#include "client/cli/command/exit_code.h"
#include "client/cli/jobs/job_scalars.h"
#include "client/cli/mlflow/entity_names.h"
#include "client/cli/mlflow/mlflow_run.h"
#include "client/cli/mlflow/point_sender.h"
#include "client/cli/output/job_view.h"
#include "client/client.h"
#include "client/text/counted.h"
#include "client/text/quote.h"

namespace gpupool::client {
namespace {

// Time between two calls about a job that runs.
constexpr absl::Duration kPauseOfFollower = absl::Seconds(1);

// Returns the status of the run of a job that has ended in this state.
const char* RunStatusOf(v1::JobState state) {
  if (state == v1::SUCCEEDED) return "FINISHED";
  return state == v1::CANCELLED ? "KILLED" : "FAILED";
}

// Takes the events of a job, and gives their numbers to a sender.
class EventTaker {
 public:
  explicit EventTaker(PointSender& sender) : sender_(sender) {}

  // Returns false once a call has failed.
  bool Take(const v1::JobEvent& event) {
    if (event.has_state_change()) last_change_ = event;
    const std::optional<ScalarEvent> taken = scalars_.Take(event);
    if (!taken.has_value()) return true;
    for (const auto& [curve, value] : taken->values) {
      if (!sender_.Add({.key = EntityName(curve),
                        .value = value,
                        .step = taken->step,
                        .time = taken->time})) {
        return false;
      }
    }
    return true;
  }

  // Returns the last change of the job's state, if that is its end.
  std::optional<v1::JobEvent> end() const {
    if (!IsFinal(last_change_.state_change().to())) return std::nullopt;
    return last_change_;
  }

 private:
  PointSender& sender_;
  JobScalars scalars_;
  v1::JobEvent last_change_;
};

void PrintSent(const Context& context, const MlflowRun& run,
               const MlflowOptions& options) {
  std::ostream& out = *context.out().stream;
  if (context.options().output == OutputFormat::kTable) {
    out << "sent " << Counted(run.count(), "new point") << " of "
        << Counted(run.metrics().size(), "metric") << " to run "
        << Printable(run.id()) << " of experiment "
        << Printable(options.experiment) << "; see them at "
        << Printable(run.Page()) << "\n";
    return;
  }
  // JSON is YAML, so one form serves both.
  const nlohmann::ordered_json json = {{"run_id", run.id()},
                                       {"experiment_id", run.experiment_id()},
                                       {"url", run.Page()},
                                       {"points", run.count()},
                                       {"metrics", run.metrics()}};
  out << json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace)
      << "\n";
}

absl::StatusOr<TrackingServer::Options> ServerOptionsOf(
    const Context& context, const MlflowOptions& options) {
  absl::StatusOr<TrackingUrl> url = ParseTrackingUrl(options.url);
  if (!url.ok()) return url.status();
  absl::StatusOr<TrackingCredentials> credentials =
      TrackingCredentials::FromEnvironment();
  if (!credentials.ok()) return credentials.status();
  return TrackingServer::Options{.url = *std::move(url),
                                 .credentials = *std::move(credentials),
                                 .timeout = context.options().timeout,
                                 .stop = context.stop()};
}

// Sends until the watch ends, and sets `watched` to its status. Returns the
// status of the calls to MLflow.
absl::Status SendEvents(const LogSource& read, MlflowRun& run,
                        absl::Status& watched) {
  if (!IsFinal(read.job.state())) {
    // The job of a run that had ended may have been queued again.
    absl::Status status = run.SetStatus("RUNNING", std::nullopt);
    if (!status.ok()) return status;
  }
  // All stored events come at once, so full calls are made of them.
  PointSender sender(run, read.watch.stored_only ? absl::InfiniteDuration()
                                                 : kPauseOfFollower);
  EventTaker taker(sender);
  watched =
      WatchJob(*read.client, read.job.id(), read.watch,
               [&](const v1::JobEvent& event) { return taker.Take(event); });
  absl::Status sent = sender.End();
  if (!sent.ok() || !watched.ok()) return sent;
  const std::optional<v1::JobEvent> end = taker.end();
  if (!end.has_value()) return absl::OkStatus();
  return run.SetStatus(RunStatusOf(end->state_change().to()),
                       ToTime(end->time()));
}

}  // namespace

int SendToMlflow(Context& context, const LogSource& read,
                 const MlflowOptions& options) {
  absl::StatusOr<TrackingServer::Options> server_options =
      ServerOptionsOf(context, options);
  if (!server_options.ok()) return context.Fail(server_options.status());
  TrackingServer server(*std::move(server_options));
  absl::StatusOr<MlflowRun> run = MlflowRun::Open(
      server, read.job,
      {.experiment = options.experiment, .server = read.client->address()}, {});
  if (!run.ok()) return context.Fail(run.status());
  if (!read.watch.stored_only) {
    context.Say(absl::StrCat("sending to ", Printable(run->Page()),
                             " until job ", read.job.id(), " ends"));
  }
  absl::Status watched;
  const absl::Status sent = SendEvents(read, *run, watched);
  const bool stopped = context.stop().stop_requested();
  if (!sent.ok() && !stopped) return context.Fail(sent);
  PrintSent(context, *run, options);
  if (stopped) return kInterrupted;
  return watched.ok() ? kOk : context.Fail(watched);
}

}  // namespace gpupool::client
