// Statistics for the input scaling that is part of a model: y = x * scale +
// shift for each element of a row. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/data/column.h"

namespace gpupool::v1 {
class Scaling;
}  // namespace gpupool::v1

namespace gpupool::engine {

struct ScalingValues {
  std::vector<float> scale;  // [Column::width]
  std::vector<float> shift;  // [Column::width]
};

// Returns INVALID_ARGUMENT when `multiply` is zero or not finite.
absl::Status ValidateScaling(const v1::Scaling& rule);

// Computes the scaling over the given rows only: the training rows, at least
// one.
//   multiply     scale = the factor, shift = 0
//   standardize  (x - mean) / population deviation; a feature that never
//                varies is only centred
//   min_max      (x - min) / (max - min); a feature that never varies gives 0
// The rule must be set.
absl::StatusOr<ScalingValues> ComputeScaling(const v1::Scaling& rule,
                                             const Column& features,
                                             absl::Span<const uint32_t> rows);

}  // namespace gpupool::engine
