// A text that says what a value is made of, so that programs of one model can
// tell that they mean the same bytes. Pure.
#pragma once

#include <string>

#include "engine/graph/graph.h"

namespace gpupool::engine {

// Two values with the same text in graphs over one weight store hold the same
// numbers: persistent values by name, derived values by their op, attributes
// and operands. Empty for all others.
std::string IdentityOf(const Graph& graph, const GraphIndex& index,
                       ValueId value);

}  // namespace gpupool::engine
