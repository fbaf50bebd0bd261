// The learning rate of each step in closed form. Pure.
#pragma once

#include <cstdint>

#include "absl/status/status.h"

namespace gpupool::v1 {
class LearningRateSchedule;
}  // namespace gpupool::v1

namespace gpupool::engine {

// Returns INVALID_ARGUMENT, naming the field, when a field is out of range.
absl::Status ValidateSchedule(const v1::LearningRateSchedule& schedule,
                              double base, uint64_t total_steps);

struct ScheduleStep {
  uint64_t step = 0;  // from 0
  uint64_t total_steps = 0;
  uint32_t reductions = 0;  // plateau only: number of reductions so far
};

// Returns the rate of a step. w: warm-up steps, b: base rate, e = step - w, n =
// total steps - w (torch/optim/lr_scheduler.py):
//   step < w         b * (step + 1) / w
//   constant rate    b
//   step             b * gamma^(e div every_steps)
//   cosine           minimum + (b - minimum) * (1 + cos(pi * e / T)) / 2 with
//                    T = steps, by default n: the minimum is reached after the
//                    last step
//   multi_step       b * gamma^(number of milestones <= e)
//   constant         e < steps: b * factor; then b
//   linear           b * (start + (end - start) * min(e, steps) / steps)
//   exponential      b * gamma^e
//   cosine_restarts  the cosine's formula with T = first_steps * growth^i and
//                    e counted from the i-th restart
//   polynomial       b * (1 - min(e, T) / T)^power, T = steps, by default n
//   one_cycle        i = maximum / initial_divisor; cosine from i to maximum
//                    at e = warm_fraction * n - 1, then to i / final_divisor
//                    at e = n - 1 (Smith and Topin 2017, arXiv 1708.07120)
//   plateau          max(minimum, b * factor^reductions)
//   cyclic           linear from base to maximum in up_steps and back in
//                    down_steps, repeatedly (Smith 2015, arXiv 1506.01186)
double LearningRateAt(const v1::LearningRateSchedule& schedule, double base,
                      const ScheduleStep& at);

}  // namespace gpupool::engine
