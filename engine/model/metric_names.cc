#include "engine/model/metric_names.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/model/losses.h"
#include "gpupool/v1/job.pb.h"

namespace gpupool::engine {
namespace {

using Names = std::vector<absl::string_view>;

Names MetricsOf(const v1::TrainingSpec& training) {
  Names names = {"precision", "recall", "f1", "auc", "iou", "confusion"};
  switch (training.loss_case()) {
    case v1::TrainingSpec::kCrossEntropy:
    case v1::TrainingSpec::kNegativeLogLikelihood:
      names.push_back("perplexity");
      return names;
    case v1::TrainingSpec::kBceWithLogits:
      return names;
    case v1::TrainingSpec::kMeanSquaredError:
    case v1::TrainingSpec::kL1:
    case v1::TrainingSpec::kHuber:
      return {"mae", "r2"};
    default:
      return {};
  }
}

}  // namespace

absl::Status CheckMetricNames(const v1::TrainingSpec& training) {
  const Names fitting = MetricsOf(training);
  for (const std::string& name : training.metrics()) {
    if (absl::c_linear_search(fitting, name)) continue;
    const std::string loss = training.loss_case() == 0
                                 ? "training without one loss of its own"
                                 : std::string(LossName(training));
    return absl::InvalidArgumentError(absl::StrCat(
        "training.metrics: '", name, "' is no metric of ", loss,
        fitting.empty()
            ? ", which has none; leave metrics out"
            : absl::StrCat("; it has ", absl::StrJoin(fitting, ", "))));
  }
  return absl::OkStatus();
}

bool HasMetric(const v1::TrainingSpec& training, absl::string_view name) {
  return absl::c_linear_search(training.metrics(), name);
}

bool CountsAnswers(const v1::TrainingSpec& training) {
  const Names counting = {"precision", "recall", "f1", "iou", "confusion"};
  return absl::c_any_of(counting, [&training](absl::string_view name) {
    return HasMetric(training, name);
  });
}

bool ComparesNumbers(const v1::TrainingSpec& training) {
  return HasMetric(training, "mae") || HasMetric(training, "r2");
}

}  // namespace gpupool::engine
