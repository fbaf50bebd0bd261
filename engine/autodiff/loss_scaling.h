// Loss scaling, as torch/amp/grad_scaler.py: float16 gradients are computed of
// the loss times a scale, so that small ones do not vanish. A step whose
// gradients are not all finite changes no weight and lowers the scale; steps in
// a row that are finite raise it. All of it are nodes of the step: nobody has
// to ask the device what happened. Pure.
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

// The scale. InvalidArgument when the model has a value of that name.
absl::StatusOr<ValueId> AddLossScale(GraphBuilder& builder);

// What the optimizer nodes of a step with a scaled loss read.
struct ScaledStep {
  ValueId clip;  // 1 / scale times `coefficient`; NaN: skip the step
  ValueId step;  // counts the steps that are not skipped
};

// `norm`, float32 [], is that of the gradients as they came out, which are
// finite where it is. `coefficient`, float32 [], may be invalid: 1. `step`
// counts all steps from 1.
absl::StatusOr<ScaledStep> AddScaledStep(ValueId norm, ValueId coefficient,
                                         ValueId step, GraphBuilder& builder);

// Overwrites the state; adds the outputs "loss_scale", of the steps to come,
// and "skipped_steps", this one included. Behind everything that reads them.
absl::Status UpdateLossScale(ValueId norm, const LossScaling& scaling,
                             GraphBuilder& builder);

// Batch statistics that are not finite, as of a step that will be skipped, do
// not reach the running ones.
absl::Status KeepStatisticsFinite(Graph& graph);

}  // namespace gpupool::engine
