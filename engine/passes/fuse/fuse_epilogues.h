// Fuses a residual add and an activation into the convolution or matmul whose
// result only they read. The fused node takes the place of the last of them.
// Pure.
#pragma once

#include "absl/status/status.h"
#include "engine/graph/graph.h"

namespace gpupool::engine {

absl::Status FuseEpilogues(Graph& graph);

// Returns what the node does with its result, or null: not a convolution or
// matmul.
Epilogue* MutableEpilogue(Node& node);

}  // namespace gpupool::engine
