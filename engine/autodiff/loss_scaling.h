// Loss scaling, as in torch/amp/grad_scaler.py. The loss is multiplied by a
// scale, so that small gradients do not vanish in float16. A step whose
// gradients are not all finite changes no weight and lowers the scale;
// consecutive finite steps raise it. Everything is done by nodes of the step,
// so the host never waits for the device to learn the outcome. Pure.
//
// The state is persistent and belongs to the optimizer's:
//   loss_scale          float32 []  the scale
//   loss_scale/growth   int64 []    finite steps since the scale changed
//   loss_scale/skipped  int64 []    steps that changed no weight
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "engine/graph/builder.h"

namespace gpupool::engine {

struct LossScaling {
  double initial = 65536;
  double growth_factor = 2;
  double backoff_factor = 0.5;
  int64_t growth_interval = 2000;
};

inline constexpr char kLossScaleName[] = "loss_scale";
inline constexpr char kLossScaleGrowthName[] = "loss_scale/growth";
inline constexpr char kLossScaleSkippedName[] = "loss_scale/skipped";

// Returns the scale. INVALID_ARGUMENT when the model has a value of that name.
absl::StatusOr<ValueId> AddLossScale(GraphBuilder& builder);

// Inputs of the optimizer nodes of a step with a scaled loss.
struct ScaledStep {
  ValueId clip;  // 1 / scale times `coefficient`; NaN: skip the step
  ValueId step;  // counts the steps that are not skipped
};

// Adds the inputs of the optimizer nodes. `norm`, float32 [], is the norm of
// the unclipped gradients, which are finite if it is. `coefficient`, float32
// [], may be invalid: 1. `step` counts all steps from 1.
absl::StatusOr<ScaledStep> AddScaledStep(ValueId norm, ValueId coefficient,
                                         ValueId step, GraphBuilder& builder);

// Overwrites the state and adds the outputs "loss_scale", the scale of the next
// steps, and "skipped_steps", this step included. Call it after everything that
// reads the state.
absl::Status UpdateLossScale(ValueId norm, const LossScaling& scaling,
                             GraphBuilder& builder);

// Keeps batch statistics that are not finite, as in a step that will be
// skipped, from reaching the running ones.
absl::Status KeepStatisticsFinite(Graph& graph);

}  // namespace gpupool::engine
