// Drops nodes that neither an output nor an update of a persistent value needs.
// Pure.
#pragma once

#include "absl/status/status.h"
#include "engine/graph/graph.h"

namespace gpupool::engine {

absl::Status EliminateDeadNodes(Graph& graph);

}  // namespace gpupool::engine
