// Moves each load node right before the first load node that reads its result.
// Few intermediate weights (transposed, folded, about to be rounded) then exist
// at a time. Their memory is the arena's, which the steps use later. Pure.
#pragma once

#include "absl/status/status.h"
#include "engine/graph/graph.h"

namespace gpupool::engine {

// Reorders the load nodes, which stay before all others.
absl::Status ScheduleLoads(Graph& graph);

}  // namespace gpupool::engine
