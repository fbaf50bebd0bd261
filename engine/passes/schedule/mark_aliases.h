// Marks results that need no bytes of their own: reshapes (and conversions
// between layouts that are the same bytes) as views; elementwise results, and
// those of products with a residual, as in-place when the overwritten value
// has no reader left. Run it last: any other rewrite makes the marks wrong.
// Pure.
#pragma once

#include "absl/status/status.h"
#include "engine/graph/graph.h"

namespace gpupool::engine {

absl::Status MarkAliases(Graph& graph);

}  // namespace gpupool::engine
