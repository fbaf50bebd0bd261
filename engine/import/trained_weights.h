// Which weights of a model a job trains: TrainingSpec.trainable and .freeze.
// Pure.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/import/layer_spec.h"

namespace gpupool::v1 {
class TrainingSpec;
}  // namespace gpupool::v1

namespace gpupool::engine {

// The weights that get gradients, in the order of the graph's values: those
// that the patterns choose and that influence `loss`. A chosen weight without
// influence gives a warning in model.warnings. Running statistics whose name a
// pattern of `freeze` fits are no longer updated; all others are, whatever
// happens to the weights beside them.
//   InvalidArgument  a pattern fits no name (close ones are listed), or
//                    nothing is left to train
absl::StatusOr<std::vector<ValueId>> SelectTrained(
    const v1::TrainingSpec& training, ValueId loss, ModelGraph& model);

// The name of a weight's exponential moving average: "<weight>/ema".
std::string AverageName(const std::string& weight);
// The name of a weight's accumulated gradient: "<weight>/grad".
std::string AccumulatorName(const std::string& weight);

}  // namespace gpupool::engine
