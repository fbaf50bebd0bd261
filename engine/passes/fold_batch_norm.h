// Inference: a batch norm that alone reads a convolution or a matmul goes
// into its weights. The folded weights are derived values, made by a load
// node from the persistent ones, which stay what checkpoints hold. Graphs
// that update persistent values are left alone. Pure.
#pragma once

#include "absl/status/status.h"
#include "engine/graph/graph.h"

namespace gpupool::engine {

absl::Status FoldBatchNorm(Graph& graph);

}  // namespace gpupool::engine
