// Replaces nodes whose inputs are all constants by their result, and takes
// out reshapes that change nothing or only feed another reshape. Pure.
#pragma once

#include "absl/status/status.h"
#include "engine/graph/graph.h"

namespace gpupool::engine {

// Results above this many elements are not folded: they would make the graph
// larger than the work saved.
inline constexpr int64_t kMaxFoldedElements = 1 << 16;

absl::Status FoldConstants(Graph& graph);

}  // namespace gpupool::engine
