#include "client/cli/mlflow/mlflow_run.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cli/mlflow/spec_params.h"
#include "client/cli/output/job_view.h"
#include "client/text/quote.h"
#include "gpupool/v1/job.pb.h"

namespace gpupool::client {
namespace {

// Returns the tags that only the run of this job has.
KeyValues IdentityOf(const v1::Job& job) {
  return {{"gpupool.job_id", absl::StrCat(job.id())},
          {"gpupool.submit_time",
           absl::FormatTime("%Y-%m-%dT%H:%M:%E*SZ", ToTime(job.create_time()),
                            absl::UTCTimeZone())}};
}

NewRun NewRunOf(const v1::Job& job, const std::string& server) {
  const v1::JobSpec& spec = job.spec();
  NewRun run;
  run.name = spec.name().empty() ? absl::StrCat("job ", job.id()) : spec.name();
  run.start =
      ToTime(job.has_start_time() ? job.start_time() : job.create_time());
  run.tags = IdentityOf(job);
  run.tags.emplace_back("gpupool.server", server);
  run.tags.emplace_back("gpupool.model", spec.publish().model().empty()
                                             ? run.name
                                             : spec.publish().model());
  run.tags.emplace_back("mlflow.source.name", "gpupool");
  run.tags.emplace_back("mlflow.source.type", "JOB");
  return run;
}

absl::Status DeletedExperiment(const std::string& name) {
  return absl::FailedPreconditionError(
      absl::StrCat("the experiment ", Quoted(name),
                   " was deleted in MLflow; restore it there, or name another "
                   "one by --experiment"));
}

}  // namespace

absl::StatusOr<MlflowRun> MlflowRun::Open(TrackingServer& server,
                                          const v1::Job& job,
                                          const Owner& owner,
                                          Patience patience) {
  MlflowRun run(server, patience);
  absl::Status status = server.Retry(
      patience.open, [&] { return run.FindExperiment(owner.experiment); });
  if (!status.ok()) return status;
  status =
      server.Retry(patience.open, [&] { return run.FindOrCreate(job, owner); });
  if (status.ok()) status = run.SendParams(job);
  if (!status.ok()) return status;
  return run;
}

absl::Status MlflowRun::FindExperiment(const std::string& name) {
  const std::string query =
      absl::StrCat("experiment_name=", PercentEncoded(name));
  absl::StatusOr<nlohmann::json> found =
      server_->Get("experiments/get-by-name", query);
  if (absl::IsNotFound(found.status())) {
    const absl::StatusOr<nlohmann::json> created =
        server_->Post("experiments/create", CreateExperimentBody(name));
    if (created.ok()) {
      absl::StatusOr<std::string> id = ReadExperimentId(*created);
      if (!id.ok()) return id.status();
      experiment_id_ = *std::move(id);
      return absl::OkStatus();
    }
    // Another client may have been faster.
    if (!absl::IsAlreadyExists(created.status())) return created.status();
    found = server_->Get("experiments/get-by-name", query);
  }
  if (!found.ok()) return found.status();
  absl::StatusOr<Experiment> experiment = ReadExperiment(*found);
  if (!experiment.ok()) return experiment.status();
  if (experiment->deleted) return DeletedExperiment(name);
  experiment_id_ = std::move(experiment->id);
  return absl::OkStatus();
}

absl::Status MlflowRun::FindOrCreate(const v1::Job& job, const Owner& owner) {
  const absl::StatusOr<nlohmann::json> answer = server_->Post(
      "runs/search", SearchRunsBody(experiment_id_, IdentityOf(job)));
  if (!answer.ok()) return answer.status();
  absl::StatusOr<std::optional<TrackedRun>> found = ReadFoundRun(*answer);
  if (!found.ok()) return found.status();
  if (found->has_value()) {
    run_ = **std::move(found);
    return absl::OkStatus();
  }
  const absl::StatusOr<nlohmann::json> created =
      server_->Post("runs/create",
                    CreateRunBody(experiment_id_, NewRunOf(job, owner.server)));
  if (!created.ok()) return created.status();
  absl::StatusOr<TrackedRun> run = ReadRun(*created);
  if (!run.ok()) return run.status();
  run_ = *std::move(run);
  return absl::OkStatus();
}

absl::Status MlflowRun::SendParams(const v1::Job& job) {
  KeyValues params = SpecParams(job.spec());
  // MLflow takes a param again, but not with another value.
  std::erase_if(params, [this](const KeyValues::value_type& param) {
    return run_.params.contains(param.first);
  });
  absl::Span<const KeyValues::value_type> rest = params;
  while (!rest.empty()) {
    const auto part = rest.subspan(0, kMostParamsPerCall);
    const absl::Status status = server_->Retry(patience_.send, [&] {
      return server_->Post("runs/log-batch", LogParamsBody(run_.id, part))
          .status();
    });
    if (!status.ok()) return status;
    rest.remove_prefix(part.size());
  }
  return absl::OkStatus();
}

std::string MlflowRun::Page() const {
  return absl::StrCat(server_->url().Text(), "/#/experiments/", experiment_id_,
                      "/runs/", run_.id);
}

std::vector<MetricPoint> MlflowRun::Unsent(
    const std::vector<MetricPoint>& points) const {
  std::map<std::string, int64_t> last_steps = run_.last_steps;
  std::vector<MetricPoint> unsent;
  for (const MetricPoint& point : points) {
    const auto step = static_cast<int64_t>(point.step);
    const auto [last, first] = last_steps.emplace(point.key, step);
    if (!first && step <= last->second) continue;
    last->second = step;
    unsent.push_back(point);
  }
  return unsent;
}

absl::Status MlflowRun::ReadAgain() {
  const absl::StatusOr<nlohmann::json> answer = server_->Get(
      "runs/get", absl::StrCat("run_id=", PercentEncoded(run_.id)));
  if (!answer.ok()) return answer.status();
  absl::StatusOr<TrackedRun> run = ReadRun(*answer);
  if (!run.ok()) return run.status();
  run_ = *std::move(run);
  return absl::OkStatus();
}

absl::Status MlflowRun::Log(const std::vector<MetricPoint>& points) {
  const std::vector<MetricPoint> unsent = Unsent(points);
  bool repeated = false;
  const absl::Status status = server_->Retry(patience_.send, [&] {
    if (std::exchange(repeated, true)) {
      absl::Status read = ReadAgain();
      if (!read.ok()) return read;
    }
    const std::vector<MetricPoint> rest = Unsent(unsent);
    if (rest.empty()) return absl::OkStatus();
    return server_->Post("runs/log-batch", LogMetricsBody(run_.id, rest))
        .status();
  });
  if (!status.ok()) return status;
  for (const MetricPoint& point : unsent) {
    run_.last_steps[point.key] = static_cast<int64_t>(point.step);
    metrics_.insert(point.key);
  }
  count_ += unsent.size();
  return absl::OkStatus();
}

absl::Status MlflowRun::SetStatus(const std::string& status,
                                  std::optional<absl::Time> end) {
  if (run_.status == status) return absl::OkStatus();
  const absl::Status updated = server_->Retry(patience_.send, [&] {
    return server_->Post("runs/update", UpdateRunBody(run_.id, status, end))
        .status();
  });
  if (updated.ok()) run_.status = status;
  return updated;
}

}  // namespace gpupool::client
