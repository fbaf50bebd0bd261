// The order of the nodes that lowers the peak of live bytes. Load nodes stand
// where schedule_loads.h puts them. Optimizer nodes move up to where their
// gradients are ready; then several orders are tried by simulation, and the
// present one is kept unless another needs at least a hundredth less:
//   the node that frees the most bytes next, from the front or from the back
//   nodes as late as their first reader allows
// In all of them sums over ranks stand where schedule_all_reduces.h wants them.
// The same graph gives the same order. Pure.
#pragma once

#include "absl/status/status.h"
#include "engine/graph/graph.h"

namespace gpupool::engine {

absl::Status Schedule(Graph& graph);

}  // namespace gpupool::engine
