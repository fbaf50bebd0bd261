// Checks of axes and cell counts for several type rules. Pure. Internal to
// engine/graph.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "engine/graph/type_rules.h"

namespace gpupool::engine::type_rules {

// Returns INVALID_ARGUMENT unless 0 <= axis < rank.
inline absl::Status CheckAxis(Op op, int axis, int rank) {
  if (axis >= 0 && axis < rank) return absl::OkStatus();
  return Refuse(op, "axis ", axis, " does not exist; there are ", rank,
                " dimensions");
}

// Returns the sum of two cell counts. INVALID_ARGUMENT when it is above
// kMaxElements.
inline absl::StatusOr<int64_t> AddCells(Op op, int64_t a, int64_t b) {
  if (a <= kMaxElements && b <= kMaxElements - a) return a + b;
  return Refuse(op, a, " and ", b, " cells along one axis are more than ",
                kMaxElements);
}

}  // namespace gpupool::engine::type_rules
