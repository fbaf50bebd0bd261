// The end of a training step: clipping, loss scaling and the optimizer, as
// graph nodes that overwrite the parameters and the optimizer's state. Pure.
//
// With g the clipped gradient, p the parameter and t the step from 1, as in
// PyTorch's torch/optim:
//   SGD      g += wd p; v = m v + (1 - dampening) g (first: v = g);
//            p -= lr (nesterov ? g + m v : v)
//   Adam     g += wd p (AdamW: p *= 1 - lr wd); m = b1 m + (1 - b1) g;
//            v = b2 v + (1 - b2) g^2;
//            p -= lr / (1 - b1^t) m / (sqrt(v / (1 - b2^t)) + eps)
//   RMSprop  g += wd p; v = a v + (1 - a) g^2; centered: mean = a mean +
//            (1 - a) g, v - mean^2 in place of v below;
//            s = g / (sqrt(v) + eps); momentum: b = m b + s in place of s;
//            p -= lr s
//   Adagrad  g += wd p; sum += g^2;
//            p -= lr / (1 + (t - 1) lr_decay) g / (sqrt(sum) + eps)
//   Lion     p *= 1 - lr wd; p -= lr sign(b1 m + (1 - b1) g);
//            m = b2 m + (1 - b2) g   (Chen et al. 2023, arXiv 2302.06675)
#pragma once

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/autodiff/loss_scaling.h"
#include "engine/graph/graph.h"

namespace gpupool::engine {

struct StepTailOptions {
  // The attributes of the optimizer. The step tail sets `clip` in them.
  std::variant<SgdAttributes, AdamAttributes, RmspropAttributes,
               AdagradAttributes, LionAttributes>
      optimizer;
  double clip_value = 0;  // clamps gradients to [-c, c] first; 0: no clamping
  // Limits the norm of the clamped gradients; 0: no clipping.
  double clip_norm = 0;
  // Set when the gradients are those of the loss times a scale. Both limits
  // above are limits of the true gradients.
  std::optional<LossScaling> loss_scaling;
};

// A state of the optimizer, which begins as zeros.
struct OptimizerState {
  // "<parameter>/momentum", "/adam.m", "/adam.v", "/rmsprop.v",
  // "/rmsprop.mean", "/rmsprop.momentum", "/adagrad.sum", "/lion.m"
  std::string name;
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
