// Common sub-expression elimination: pure nodes with the same op, attributes
// and inputs are computed once. Pure.
#pragma once

#include "absl/status/status.h"
#include "engine/graph/graph.h"

namespace gpupool::engine {

absl::Status MergeEqualNodes(Graph& graph);

}  // namespace gpupool::engine
