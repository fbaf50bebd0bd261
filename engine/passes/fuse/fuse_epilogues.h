// Fuses a residual add and an activation into the convolution or matmul whose
// result only they read. The fused node takes the place of the last of them.
// Pure.
#pragma once

#include "absl/status/status.h"
#include "engine/graph/graph.h"

namespace gpupool::engine {

absl::Status FuseEpilogues(Graph& graph);

// Returns the epilogue of a convolution or matmul, and null for other nodes.
Epilogue* MutableEpilogue(Node& node);

}  // namespace gpupool::engine
