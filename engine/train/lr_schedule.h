// The learning rate of each step, by closed forms. Pure.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace gpupool::v1 {
class LearningRateSchedule;
class TrainingSpec;
}  // namespace gpupool::v1

namespace gpupool::engine {

// The optimizer's base rate, defaults applied (Adam and AdamW 1e-3).
// InvalidArgument when no optimizer is set, SGD has no learning rate, or the
// rate is not finite or not above 0.
absl::StatusOr<double> BaseLearningRate(const v1::TrainingSpec& training);

// InvalidArgument names the field that is out of range.
absl::Status ValidateSchedule(const v1::LearningRateSchedule& schedule,
                              double base, uint64_t total_steps);

// The rate of step `step`, counted from 0, of `total_steps`; w warm-up steps,
// b base rate, e = step - w (torch/optim/lr_scheduler.py):
//   step < w   b * (step + 1) / w
//   constant   b
//   step       b * gamma^(e div every_steps)
//   cosine     minimum + (b - minimum) * (1 + cos(pi * e / T)) / 2 with
//              T = total_steps - w - 1, so that the last step has the minimum
double LearningRateAt(const v1::LearningRateSchedule& schedule, double base,
                      uint64_t step, uint64_t total_steps);

}  // namespace gpupool::engine
