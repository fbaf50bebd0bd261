// Requests and answers of MLflow's REST API 2.0 about runs
// (https://mlflow.org/docs/latest/rest-api.html). Pure functions.
//
// Answers come from outside. A field that is missing or has another type is an
// error (Internal) that names the field.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"

namespace gpupool::client {

// Limits of one call of runs/log-batch.
inline constexpr size_t kMostMetricsPerCall = 1000;
inline constexpr size_t kMostParamsPerCall = 100;

// A number of a metric at a step.
struct MetricPoint {
  std::string key;
  double value = 0;
  uint64_t step = 0;
  absl::Time time;
};

// Keys with their values, for params and tags.
using KeyValues = std::vector<std::pair<std::string, std::string>>;

struct NewRun {
  std::string name;
  absl::Time start;
  KeyValues tags;
};

struct Experiment {
  std::string id;
  bool deleted = false;
};

// A run as the server has it.
struct TrackedRun {
  std::string id;
  std::string status;                         // RUNNING, FINISHED, ...
  std::map<std::string, int64_t> last_steps;  // highest step by metric
  std::set<std::string> params;
};

nlohmann::json CreateExperimentBody(const std::string& name);
// Finds the oldest run that is not deleted and has all these tags. The values
// must have no quotes.
nlohmann::json SearchRunsBody(const std::string& experiment_id,
                              const KeyValues& tags);
nlohmann::json CreateRunBody(const std::string& experiment_id,
                             const NewRun& run);
// At most kMostMetricsPerCall points. Numbers that are not finite become the
// texts of protobuf's JSON: "NaN", "Infinity", "-Infinity".
nlohmann::json LogMetricsBody(const std::string& run_id,
                              absl::Span<const MetricPoint> points);
// At most kMostParamsPerCall params.
nlohmann::json LogParamsBody(const std::string& run_id,
                             absl::Span<const KeyValues::value_type> params);
// `end` is absent while the run goes on.
nlohmann::json UpdateRunBody(const std::string& run_id,
                             const std::string& status,
                             std::optional<absl::Time> end);

// Reads the answer of experiments/get-by-name.
absl::StatusOr<Experiment> ReadExperiment(const nlohmann::json& answer);
// Reads the answer of experiments/create, and returns the experiment's id.
absl::StatusOr<std::string> ReadExperimentId(const nlohmann::json& answer);
// Reads the answer of runs/create or runs/get.
absl::StatusOr<TrackedRun> ReadRun(const nlohmann::json& answer);
// Reads the answer of runs/search. Nothing if no run was found.
absl::StatusOr<std::optional<TrackedRun>> ReadFoundRun(
    const nlohmann::json& answer);

}  // namespace gpupool::client
