// Converts the precision of a job or of a served model to terms of the graph
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

// Returns the type of products and of the values between them. It is float32
// unless the precision is a 16-bit one.
DType ComputeType(v1::Precision precision);
// Returns whether GPUs may round float32 operands to TF32.
bool AllowsTensorFloat32(v1::Precision precision);

// Least loss scale: the smallest normal float16. If gradients are not finite
// even at this scale, scaling is not the cause.
inline constexpr double kLeastLossScale = 0x1p-14;

// Returns the scaling with its defaults, with FP16 only. INVALID_ARGUMENT names
// the field, its value and the limit, or says that only FP16 scales the loss.
absl::StatusOr<std::optional<LossScaling>> ConvertLossScaling(
    const v1::TrainingSpec& training);

}  // namespace gpupool::engine
