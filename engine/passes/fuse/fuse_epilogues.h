// A residual add and an activation that alone read a convolution's or a
// matmul's result become part of that node, which then stands where the last
// of them stood. Pure.
#pragma once

#include "absl/status/status.h"
#include "engine/graph/graph.h"

namespace gpupool::engine {

absl::Status FuseEpilogues(Graph& graph);

}  // namespace gpupool::engine
