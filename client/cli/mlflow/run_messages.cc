#include "client/cli/mlflow/run_messages.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace gpupool::client {
namespace {

using Json = nlohmann::json;

Json ToJson(double value) {
  if (std::isfinite(value)) return value;
  if (std::isnan(value)) return "NaN";
  return value > 0 ? "Infinity" : "-Infinity";
}

Json ToJson(const KeyValues::value_type& entry) {
  return {{"key", entry.first}, {"value", entry.second}};
}

absl::Status BadAnswer(absl::string_view field) {
  return absl::InternalError(
      absl::StrCat("MLflow's answer has no valid ", field,
                   "; check that the URL is that of a tracking server with "
                   "MLflow's REST API 2.0"));
}

// Returns the member of an object, or null.
const Json& MemberOf(const Json& object, const char* key) {
  static const Json kNull;
  if (!object.is_object()) return kNull;
  const auto found = object.find(key);
  return found == object.end() ? kNull : *found;
}

// Returns "" if there is no text that is not empty.
std::string TextOf(const Json& object, const char* key) {
  const Json& value = MemberOf(object, key);
  return value.is_string() ? value.get<std::string>() : "";
}

// Returns a 64-bit integer, which some servers write as a text.
std::optional<int64_t> IntegerOf(const Json& object, const char* key) {
  const Json& value = MemberOf(object, key);
  if (value.is_number_integer()) return value.get<int64_t>();
  int64_t number = 0;
  if (value.is_string() &&
      absl::SimpleAtoi(value.get_ref<const std::string&>(), &number)) {
    return number;
  }
  return std::nullopt;
}

absl::Status ReadMetrics(const Json& metrics, TrackedRun& run) {
  if (metrics.is_null()) return absl::OkStatus();
  if (!metrics.is_array()) return BadAnswer("run.data.metrics");
  for (const Json& metric : metrics) {
    const std::string key = TextOf(metric, "key");
    if (key.empty()) return BadAnswer("run.data.metrics.key");
    // A step of 0 may be left out.
    const bool has_step = !MemberOf(metric, "step").is_null();
    const std::optional<int64_t> step =
        has_step ? IntegerOf(metric, "step") : 0;
    if (!step.has_value()) return BadAnswer("run.data.metrics.step");
    const auto [at, added] = run.last_steps.emplace(key, *step);
    if (!added) at->second = std::max(at->second, *step);
  }
  return absl::OkStatus();
}

absl::Status ReadParams(const Json& params, TrackedRun& run) {
  if (params.is_null()) return absl::OkStatus();
  if (!params.is_array()) return BadAnswer("run.data.params");
  for (const Json& param : params) {
    const std::string key = TextOf(param, "key");
    if (key.empty()) return BadAnswer("run.data.params.key");
    run.params.insert(key);
  }
  return absl::OkStatus();
}

absl::StatusOr<TrackedRun> ReadRunObject(const Json& object) {
  const Json& info = MemberOf(object, "info");
  TrackedRun run;
  run.id = TextOf(info, "run_id");
  if (run.id.empty()) return BadAnswer("run.info.run_id");
  run.status = TextOf(info, "status");
  const Json& data = MemberOf(object, "data");
  absl::Status status = ReadMetrics(MemberOf(data, "metrics"), run);
  if (status.ok()) status = ReadParams(MemberOf(data, "params"), run);
  if (!status.ok()) return status;
  return run;
}

}  // namespace

Json CreateExperimentBody(const std::string& name) { return {{"name", name}}; }

Json SearchRunsBody(const std::string& experiment_id, const KeyValues& tags) {
  std::string filter;
  for (const auto& [key, value] : tags) {
    absl::StrAppend(&filter, filter.empty() ? "" : " and ", "tags.`", key,
                    "` = '", value, "'");
  }
  return {{"experiment_ids", Json::array({experiment_id})},
          {"filter", filter},
          {"run_view_type", "ACTIVE_ONLY"},
          {"max_results", 1},
          {"order_by", Json::array({"attributes.start_time ASC"})}};
}

Json CreateRunBody(const std::string& experiment_id, const NewRun& run) {
  Json tags = Json::array();
  for (const auto& tag : run.tags) tags.push_back(ToJson(tag));
  return {{"experiment_id", experiment_id},
          {"run_name", run.name},
          {"start_time", absl::ToUnixMillis(run.start)},
          {"tags", std::move(tags)}};
}

Json LogMetricsBody(const std::string& run_id,
                    absl::Span<const MetricPoint> points) {
  Json metrics = Json::array();
  for (const MetricPoint& point : points) {
    metrics.push_back({{"key", point.key},
                       {"value", ToJson(point.value)},
                       {"timestamp", absl::ToUnixMillis(point.time)},
                       {"step", point.step}});
  }
  return {{"run_id", run_id}, {"metrics", std::move(metrics)}};
}

Json LogParamsBody(const std::string& run_id,
                   absl::Span<const KeyValues::value_type> params) {
  Json list = Json::array();
  for (const auto& param : params) list.push_back(ToJson(param));
  return {{"run_id", run_id}, {"params", std::move(list)}};
}

Json UpdateRunBody(const std::string& run_id, const std::string& status,
                   std::optional<absl::Time> end) {
  Json body = {{"run_id", run_id}, {"status", status}};
  if (end.has_value()) body["end_time"] = absl::ToUnixMillis(*end);
  return body;
}

absl::StatusOr<Experiment> ReadExperiment(const Json& answer) {
  const Json& object = MemberOf(answer, "experiment");
  Experiment experiment;
  experiment.id = TextOf(object, "experiment_id");
  if (experiment.id.empty()) return BadAnswer("experiment.experiment_id");
  experiment.deleted = TextOf(object, "lifecycle_stage") == "deleted";
  return experiment;
}

absl::StatusOr<std::string> ReadExperimentId(const Json& answer) {
  std::string id = TextOf(answer, "experiment_id");
  if (id.empty()) return BadAnswer("experiment_id");
  return id;
}

absl::StatusOr<TrackedRun> ReadRun(const Json& answer) {
  return ReadRunObject(MemberOf(answer, "run"));
}

absl::StatusOr<std::optional<TrackedRun>> ReadFoundRun(const Json& answer) {
  // An empty list may be left out.
  const Json& runs = MemberOf(answer, "runs");
  if (runs.is_null()) return std::optional<TrackedRun>();
  if (!runs.is_array()) return BadAnswer("runs");
  if (runs.empty()) return std::optional<TrackedRun>();
  absl::StatusOr<TrackedRun> run = ReadRunObject(runs.front());
  if (!run.ok()) return run.status();
  return std::optional<TrackedRun>(*std::move(run));
}

}  // namespace gpupool::client
