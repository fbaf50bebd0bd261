// The end of a training step: clipping, loss scaling and the optimizer, as
// graph nodes that overwrite the parameters and the optimizer's state. Pure.
// The optimizers: engine/graph/attributes_optimizers.h.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/autodiff/loss_scaling.h"
#include "engine/graph/graph.h"

namespace gpupool::engine {

// Options of one parameter, in place of those of all.
struct ParameterOptions {
  double rate_factor = 1;    // multiplies the learning rate
  double weight_decay = -1;  // in place of the optimizer's; negative: that one

  friend bool operator==(const ParameterOptions&,
                         const ParameterOptions&) = default;
};

struct StepTailOptions {
  // The attributes of the optimizer. The step tail sets `clip` in them.
  OptimizerAttributes optimizer;
  // One for each parameter. Empty: nothing is different.
  std::vector<ParameterOptions> parameters;
  double clip_value = 0;  // clamps gradients to [-c, c] first; 0: it does not
  double clip_norm = 0;   // of the clamped gradients; 0: no clipping
  // Set when the gradients are those of the loss times a scale. Both limits
  // above are limits of the true gradients.
  std::optional<LossScaling> loss_scaling;
};

// A state of the optimizer, which begins as zeros.
struct OptimizerState {
  std::string name;  // the parameter's name and that of the state
  DType dtype = DType::kFloat32;
  Shape shape;
};

// Appends one optimizer node for each parameter; gradients[i] belongs to
// parameters[i]. Adds the inputs "learning_rate" (float64 []) and "step" (int64
// [], from 1). Returns the states that the optimizer keeps, in the order of the
// parameters. INVALID_ARGUMENT when an attribute is out of range.
absl::StatusOr<std::vector<OptimizerState>> AddStepTail(
    Graph& graph, absl::Span<const ValueId> parameters,
    absl::Span<const ValueId> gradients, const StepTailOptions& options);

}  // namespace gpupool::engine
