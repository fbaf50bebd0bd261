// Puts each load node right before the first one that reads what it makes, so
// that weights on their way (transposed, folded, about to be rounded) are few
// at a time: their bytes are the arena's, and free again for the steps. Pure.
#pragma once

#include "absl/status/status.h"
#include "engine/graph/graph.h"

namespace gpupool::engine {

// Load nodes stand before all others, and stay there.
absl::Status ScheduleLoads(Graph& graph);

}  // namespace gpupool::engine
