// Small steps that several passes share. Internal to engine/passes.
#pragma once

#include <vector>

#include "engine/graph/graph.h"

namespace gpupool::engine {

// replaced[v] = v for every value; a pass then redirects some.
std::vector<ValueId> Identity(const Graph& graph);
// Follows replacements to the end.
ValueId Resolve(const std::vector<ValueId>& replaced, ValueId id);
// Redirects all reads, outputs and aliases.
void ApplyReplacements(Graph& graph, const std::vector<ValueId>& replaced);
// Removes the marked nodes; their outputs must have no readers left.
void DropNodes(Graph& graph, const std::vector<bool>& drop);
// Whether the value is there before the first run: load nodes may read it.
bool IsKnownAtLoad(const Value& value);
// Puts load nodes before step nodes; both keep their order.
void MoveLoadNodesFirst(Graph& graph);
// Whether a node of the graph overwrites persistent values, as training does.
bool HasUpdates(const Graph& graph);
// Position of the node that overwrites each persistent value; -1 for none.
std::vector<int> Updaters(const Graph& graph);

}  // namespace gpupool::engine
