// Small steps for several passes. Internal to engine/passes.
#pragma once

#include <vector>

#include "engine/graph/graph.h"

namespace gpupool::engine {

// Returns replaced[v] = v for every value. A pass then redirects some.
std::vector<ValueId> Identity(const Graph& graph);
// Follows replacements to the end and returns the last value.
ValueId Resolve(const std::vector<ValueId>& replaced, ValueId id);
// Redirects all reads, outputs and aliases to the replacements.
void ApplyReplacements(Graph& graph, const std::vector<ValueId>& replaced);
// Removes the marked nodes. Their outputs must have no readers.
void DropNodes(Graph& graph, const std::vector<bool>& drop);
// Returns whether the value exists before the first run, so load nodes may read
// it.
bool IsKnownAtLoad(const Value& value);
// Moves load nodes before step nodes; both keep their order.
void MoveLoadNodesFirst(Graph& graph);
// Returns whether a node overwrites persistent values, as in training.
bool HasUpdates(const Graph& graph);
// Returns the position of the node that overwrites each persistent value; -1
// for none.
std::vector<int> Updaters(const Graph& graph);

}  // namespace gpupool::engine
