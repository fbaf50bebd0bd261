// Selects the weights of a model that a job trains, by TrainingSpec.trainable
// and .freeze. Pure.
#pragma once

#include <google/protobuf/repeated_field.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/model/layer_spec.h"

namespace gpupool::v1 {
class TrainingSpec;
}  // namespace gpupool::v1

namespace gpupool::engine {

// Returns the weights that get gradients, in the order of the graph's values:
// those that match the patterns and influence `loss`. A buffer
// (PersistentSpec::buffer) is only taken by a pattern of `trainable` that
// matches no parameter. Adds a warning to model.warnings for a matching weight
// without influence. Stops updates of running statistics whose name matches a
// pattern of `freeze`. All other statistics are updated, even next to frozen
// weights.
//   INVALID_ARGUMENT  a pattern matches no name (lists similar names), or no
//                     weight is left to train
absl::StatusOr<std::vector<ValueId>> SelectTrained(
    const v1::TrainingSpec& training, ValueId loss, ModelGraph& model);

// Returns whether the name matches one of the patterns.
bool MatchesAny(
    absl::string_view name,
    const google::protobuf::RepeatedPtrField<std::string>& patterns);
// Returns the names of all weights of a model, in the order of the values.
std::vector<std::string> WeightNames(const Graph& graph);
// Checks that each pattern matches a name. INVALID_ARGUMENT begins with
// "training.<field>" and lists similar names.
absl::Status CheckPatterns(
    absl::string_view field,
    const google::protobuf::RepeatedPtrField<std::string>& patterns,
    const std::vector<std::string>& names);

// Returns the name of a weight's exponential moving average, "<weight>/ema".
std::string AverageName(const std::string& weight);
// Returns the name of a weight's accumulated gradient, "<weight>/grad".
std::string AccumulatorName(const std::string& weight);

}  // namespace gpupool::engine
