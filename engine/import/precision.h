// What the precision of a job or of a served model means to the graph
// compiler. Pure.
#pragma once

#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/autodiff/loss_scaling.h"
#include "engine/tensor/dtype.h"
#include "gpupool/v1/model.pb.h"

namespace gpupool::v1 {
class TrainingSpec;
}  // namespace gpupool::v1

namespace gpupool::engine {

// The type of products and of what lies between them: float32 where the
// precision is none of the 16-bit ones.
DType ComputeType(v1::Precision precision);
// Whether GPUs may round float32 operands to TF32.
bool AllowsTensorFloat32(v1::Precision precision);

// The loss scale below which gradients cannot be finite for want of scaling
// alone: the smallest normal float16.
inline constexpr double kLeastLossScale = 0x1p-14;

// With FP16, the scaling with its defaults. InvalidArgument names the field,
// its value and the limit, or says that only FP16 scales the loss.
absl::StatusOr<std::optional<LossScaling>> ConvertLossScaling(
    const v1::TrainingSpec& training);

}  // namespace gpupool::engine
