// Checks the invariants that graph.h lists. Pure.
#pragma once

#include "absl/status/status.h"
#include "engine/graph/graph.h"

namespace gpupool::engine {

// Returns INTERNAL with the node's source and the broken rule. A failure is our
// own fault, since builders refuse bad input.
absl::Status Verify(const Graph& graph);

}  // namespace gpupool::engine
