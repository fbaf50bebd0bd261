// Graphs as text, for logs, tests and `--dump` files. Pure.
//
//   graph  = { "input " | "constant " | "persistent " ) value } node* output*
//   node   = values " = " op "(" values ")" [ " {" attributes "}" ] source
//   value  = "%" name ": " dtype shape [ " channels_last" ] [ alias ]
//
// The text is for people; no program parses it.
#pragma once

#include <string>

#include "engine/graph/graph.h"

namespace gpupool::engine {

// Return the text of a graph and of one node.
std::string Print(const Graph& graph);
std::string Print(const Graph& graph, const Node& node);
// Returns the attributes as "kernel=3x3 stride=2x2"; empty when there are none.
std::string Print(const Attributes& attributes);

}  // namespace gpupool::engine
