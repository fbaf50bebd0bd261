// Orders the nodes to lower the peak of live bytes. schedule_loads.h orders the
// load nodes. Optimizer nodes move up to where their gradients are ready. Then
// several orders are simulated, and the current one is kept unless another
// needs at least a hundredth less:
// - the node that frees the most bytes next, from the front or from the back,
// - every node as late as its first reader allows.
//
// In all of them schedule_all_reduces.h places the sums over ranks. The same
// graph gives the same order. Pure.
#pragma once

#include "absl/status/status.h"
#include "engine/graph/graph.h"

namespace gpupool::engine {

absl::Status Schedule(Graph& graph);

}  // namespace gpupool::engine
