// Inference: folds operations on single channels into the weights of the
// convolution or matmul before them, if nobody else reads its result:
// - a batch norm, also after a transposed convolution with one group,
// - a product with a number for each channel, then a sum with one.
//
// A batch norm that cannot be folded becomes a product and a sum if an
// elementwise node follows, which can then be fused with both. The folded
// weights are derived values: load nodes make them from the persistent ones,
// which checkpoints keep unchanged. Graphs that update persistent values are
// not changed. Pure.
#pragma once

#include "absl/status/status.h"
#include "engine/graph/graph.h"

namespace gpupool::engine {

absl::Status FoldBatchNorm(Graph& graph);

}  // namespace gpupool::engine
