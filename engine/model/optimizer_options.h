// Converts optimizer, clipping and loss scaling of a training spec to options
// of the step tail. Fields are found by the names that
// engine/graph/attributes_optimizers.h gives them; their limits are options of
// the message (limits.proto). Pure.
#pragma once

#include "absl/status/statusor.h"
#include "engine/autodiff/step_tail.h"

namespace gpupool::v1 {
class TrainingSpec;
}  // namespace gpupool::v1

namespace gpupool::engine {

// Returns the optimizer's base rate, or its default. INVALID_ARGUMENT when no
// optimizer is set, SGD has no learning rate, or the rate is not finite or not
// above 0.
absl::StatusOr<double> BaseLearningRate(const v1::TrainingSpec& training);

// Returns the options with defaults applied. Reads the optimizer,
// clip_gradient_value, clip_gradient_norm, precision and loss_scaling.
// INVALID_ARGUMENT names the field that is missing or out of range.
absl::StatusOr<StepTailOptions> ConvertOptimizer(
    const v1::TrainingSpec& training);

// Returns the initial value of every number of the optimizer's state.
double InitialOptimizerState(const v1::TrainingSpec& training);

}  // namespace gpupool::engine
