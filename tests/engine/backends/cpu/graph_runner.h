// Runs a graph once on the CPU back end, with numbers in and numbers out, in
// the form of the reference back end.
#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/backends/reference/interpreter.h"
#include "engine/graph/graph.h"

namespace gpupool::engine {

// Runs the load stage, then the graph. Numbers are row-major whatever the
// layout of the value. `persistents` receives the values after the run.
absl::StatusOr<reference::NamedNumbers> RunOnCpu(
    const Graph& graph, const reference::NamedNumbers& inputs,
    reference::NamedNumbers& persistents, int threads);

}  // namespace gpupool::engine
