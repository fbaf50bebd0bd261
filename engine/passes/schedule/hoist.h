// Inference: moves nodes that depend only on weights and constants to the load
// stage, so that they run when weights are set and not with every request.
// Graphs that update persistent values are not changed. Pure.
#pragma once

#include "absl/status/status.h"
#include "engine/graph/graph.h"

namespace gpupool::engine {

// The limits of a hoisted result. It may be kMaxHoistedGrowth times as large as
// its inputs, or as large as kMaxHoistedBytes. A larger one costs more memory
// than it saves time.
inline constexpr uint64_t kMaxHoistedGrowth = 2;
inline constexpr uint64_t kMaxHoistedBytes = 1 << 20;

absl::Status Hoist(Graph& graph);

}  // namespace gpupool::engine
