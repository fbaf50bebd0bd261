// Tells for each op where its outputs have the rows of a batch. An op without a
// rule mixes them, which is always safe to assume. Pure functions.
#pragma once

#include <vector>

#include "absl/types/span.h"
#include "engine/graph/graph.h"
#include "engine/serving/row_facts.h"

namespace gpupool::engine {

// Returns the facts of the outputs of the node at `position`. `facts` has those
// of its inputs, by value. `batch` must be above 1.
std::vector<RowFacts> OutputFacts(const Graph& graph, int position,
                                  int64_t batch,
                                  absl::Span<const RowFacts> facts);

// Returns whether two nodes of the same op, from graphs for different batches,
// compute the same. Attributes that only give the shape of the output may
// differ.
bool ComputeTheSame(const Node& a, const Node& b);

}  // namespace gpupool::engine
