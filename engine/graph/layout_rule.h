// The layout rule of a node. It is the rule of its op, except for ops that
// broadcast or reduce: these have layouts only if the result, or the reduced
// input, is an image. Pure.
#pragma once

#include "engine/graph/graph.h"

namespace gpupool::engine {

LayoutRule LayoutRuleOf(const Graph& graph, const Node& node);

// Returns whether the input may have another layout than the node's other
// images: it broadcasts, and its bytes are the same in every layout.
bool TakesEitherLayout(const Graph& graph, const Node& node, size_t input);

}  // namespace gpupool::engine
