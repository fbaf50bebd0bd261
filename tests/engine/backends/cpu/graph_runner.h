// Runs a graph once on the CPU back end with numbers in and numbers out, in
// the form that the reference back end takes them.
#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/backends/reference/interpreter.h"
#include "engine/graph/graph.h"

namespace gpupool::engine {

// Numbers are row-major whatever the layout of the value. `persistents`
// receives the values after the run. The load stage runs first.
absl::StatusOr<reference::NamedNumbers> RunOnCpu(
    const Graph& graph, const reference::NamedNumbers& inputs,
    reference::NamedNumbers& persistents, int threads);

}  // namespace gpupool::engine
