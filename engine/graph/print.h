// Graphs as text, for logs, tests and `--dump` files. Pure.
//
//   graph  = { "input " | "constant " | "persistent " ) value } node* output*
//   node   = values " = " op "(" values ")" [ " {" attributes "}" ] source
//   value  = "%" name ": " dtype shape [ " channels_last" ] [ alias ]
//
// The text is for people; nothing parses it.
#pragma once

#include <string>

#include "engine/graph/graph.h"

namespace gpupool::engine {

std::string Print(const Graph& graph);
std::string Print(const Graph& graph, const Node& node);
// "kernel=3x3 stride=2x2"; empty when there are none.
std::string Print(const Attributes& attributes);

}  // namespace gpupool::engine
