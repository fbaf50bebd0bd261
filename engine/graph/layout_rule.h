// The layout rule of one node: that of its op, but for ops that broadcast or
// reduce, which know layouts only where the result, or what is reduced, is an
// image. Pure.
#pragma once

#include "engine/graph/graph.h"

namespace gpupool::engine {

LayoutRule LayoutRuleOf(const Graph& graph, const Node& node);

// Whether the input may have another layout than the node's other images: it
// broadcasts, and its bytes are the same in every layout.
bool TakesEitherLayout(const Graph& graph, const Node& node, size_t input);

}  // namespace gpupool::engine
