// The metrics that a job may report beside its held-out loss
// (TrainingSpec.metrics), and which outputs of an evaluation they need. Pure.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace gpupool::v1 {
class TrainingSpec;
}  // namespace gpupool::v1

namespace gpupool::engine {

// Checks that each metric exists and fits the loss. INVALID_ARGUMENT lists the
// metrics that fit it.
absl::Status CheckMetricNames(const v1::TrainingSpec& training);

bool HasMetric(const v1::TrainingSpec& training, absl::string_view name);

// Returns whether a metric counts answers: the class that each row is given.
bool CountsAnswers(const v1::TrainingSpec& training);
// Returns whether a metric compares numbers: mae or r2.
bool ComparesNumbers(const v1::TrainingSpec& training);

}  // namespace gpupool::engine
