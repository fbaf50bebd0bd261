// Marks results that need no memory of their own. Run it last, because any
// other rewrite invalidates the marks. Pure.
// - Reshapes, and conversions between layouts that are the same bytes, become
//   views.
// - Elementwise results, and results of products with a residual, become
//   in-place when the overwritten value has no reader left.
#pragma once

#include "absl/status/status.h"
#include "engine/graph/graph.h"

namespace gpupool::engine {

absl::Status MarkAliases(Graph& graph);

}  // namespace gpupool::engine
