#include "engine/model/weight_groups.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/model/trained_weights.h"
#include "gpupool/v1/job.pb.h"

namespace gpupool::engine {
namespace {

absl::Status CheckNumber(absl::string_view field, double number) {
  if (number >= 0 && std::isfinite(number)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "training.", field, " ", number, " must be at least 0 and finite"));
}

absl::Status CheckGroups(const v1::TrainingSpec& training,
                         const std::vector<std::string>& names) {
  for (int i = 0; i < training.groups_size(); ++i) {
    const v1::WeightGroup& group = training.groups(i);
    const std::string field = absl::StrCat("groups[", i, "]");
    if (group.weights().empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("training.", field, " names no weights; list names or ",
                       "patterns in `weights`"));
    }
    RETURN_IF_ERROR(
        CheckPatterns(absl::StrCat(field, ".weights"), group.weights(), names));
    RETURN_IF_ERROR(CheckNumber(absl::StrCat(field, ".learning_rate_factor"),
                                group.learning_rate_factor()));
    RETURN_IF_ERROR(CheckNumber(absl::StrCat(field, ".weight_decay"),
                                group.weight_decay()));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<ParameterOptions>> OptionsOfWeights(
    const v1::TrainingSpec& training, const Graph& graph,
    absl::Span<const ValueId> parameters) {
  RETURN_IF_ERROR(CheckGroups(training, WeightNames(graph)));
  const bool decays_all = training.has_decay_biases_and_norms()
                              ? training.decay_biases_and_norms()
                              : !training.has_adamw();
  std::vector<ParameterOptions> options;
  for (const ValueId id : parameters) {
    const Value& weight = graph.value(id);
    ParameterOptions& own = options.emplace_back();
    if (weight.shape.rank() < 2 && !decays_all) own.weight_decay = 0;
    const auto group =
        std::find_if(training.groups().begin(), training.groups().end(),
                     [&weight](const v1::WeightGroup& one) {
                       return MatchesAny(weight.name, one.weights());
                     });
    if (group == training.groups().end()) continue;
    if (group->has_learning_rate_factor()) {
      own.rate_factor = group->learning_rate_factor();
    }
    if (group->has_weight_decay()) own.weight_decay = group->weight_decay();
  }
  return options;
}

}  // namespace gpupool::engine
