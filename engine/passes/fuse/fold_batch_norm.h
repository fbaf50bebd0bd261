// Inference: what follows a convolution or a matmul channel by channel goes
// into its weights, as long as nobody else reads the product:
//   a batch norm, also behind a transposed convolution with one group
//   a product with a number per channel, then a sum with one
// A batch norm that stays, and that an elementwise node follows, becomes a
// product and a sum, which fuse with that node.
// The folded weights are derived values, made by load nodes from the
// persistent ones, which stay what checkpoints hold. Graphs that update
// persistent values are left alone. Pure.
#pragma once

#include "absl/status/status.h"
#include "engine/graph/graph.h"

namespace gpupool::engine {

absl::Status FoldBatchNorm(Graph& graph);

}  // namespace gpupool::engine
