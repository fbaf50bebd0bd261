#include "engine/model/precision.h"

#include <limits>

#include "absl/strings/str_cat.h"
#include "gpupool/v1/job.pb.h"

namespace gpupool::engine {
namespace {

constexpr double kLargestFloat = std::numeric_limits<float>::max();

template <typename... Parts>
absl::Status RefuseScaling(const Parts&... parts) {
  return absl::InvalidArgumentError(
      absl::StrCat("training.loss_scaling: ", parts...));
}

}  // namespace

DType ComputeType(v1::Precision precision) {
  switch (precision) {
    case v1::BF16:
      return DType::kBFloat16;
    case v1::FP16:
      return DType::kFloat16;
    default:
      return DType::kFloat32;
  }
}

bool AllowsTensorFloat32(v1::Precision precision) {
  return precision == v1::HIGH;
}

absl::StatusOr<std::optional<LossScaling>> ConvertLossScaling(
    const v1::TrainingSpec& training) {
  if (training.precision() != v1::FP16) {
    if (!training.has_loss_scaling()) return std::optional<LossScaling>();
    return RefuseScaling(
        "only gradients in float16 need a scale; set precision: fp16 or leave "
        "loss_scaling out");
  }
  const v1::LossScaling& given = training.loss_scaling();
  LossScaling scaling;
  if (given.has_initial()) scaling.initial = given.initial();
  if (given.has_growth_factor()) scaling.growth_factor = given.growth_factor();
  if (given.has_backoff_factor()) {
    scaling.backoff_factor = given.backoff_factor();
  }
  if (given.has_growth_interval()) {
    scaling.growth_interval = given.growth_interval();
  }
  // These negations also refuse NaN.
  if (!(scaling.initial >= kLeastLossScale &&
        scaling.initial <= kLargestFloat)) {
    return RefuseScaling("initial is ", scaling.initial, "; it must be from ",
                         kLeastLossScale, " to ", kLargestFloat);
  }
  if (!(scaling.growth_factor > 1 && scaling.growth_factor <= kLargestFloat)) {
    return RefuseScaling("growth_factor is ", scaling.growth_factor,
                         "; it must be above 1 and at most ", kLargestFloat);
  }
  if (!(scaling.backoff_factor > 0 && scaling.backoff_factor < 1)) {
    return RefuseScaling("backoff_factor is ", scaling.backoff_factor,
                         "; it must be above 0 and below 1");
  }
  if (scaling.growth_interval < 1) {
    return RefuseScaling("growth_interval is 0; it must be at least 1");
  }
  return std::optional<LossScaling>(scaling);
}

}  // namespace gpupool::engine
