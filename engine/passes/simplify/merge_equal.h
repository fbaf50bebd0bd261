// Common sub-expression elimination: computes pure nodes with the same op,
// attributes and inputs once. Pure.
#pragma once

#include "absl/status/status.h"
#include "engine/graph/graph.h"

namespace gpupool::engine {

absl::Status MergeEqualNodes(Graph& graph);

}  // namespace gpupool::engine
