// Replaces nodes whose inputs are all constants by their results, and removes
// reshapes that change nothing or only feed another reshape. Pure.
#pragma once

#include "absl/status/status.h"
#include "engine/graph/graph.h"

namespace gpupool::engine {

// The most elements of a folded result. A larger one would cost more memory in
// the graph than it saves work.
inline constexpr int64_t kMaxFoldedElements = 1 << 16;
// The most elements that one folded node reads, and the most operations of all
// folded nodes of a graph. A file can ask for more than any time or memory;
// other nodes are left to the device, whose memory is planned.
inline constexpr int64_t kMaxFoldedInputs = 1 << 24;
inline constexpr double kMaxFoldedWork = 1 << 28;

absl::Status FoldConstants(Graph& graph);

}  // namespace gpupool::engine
