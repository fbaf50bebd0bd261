// 16-bit inference: stores weights that are only read as 16 bits in 16 bits.
// They are rounded once, as the graph's cast would round them at every load. No
// result changes, and half of their bytes are saved. Pure.
//
// All programs of a model share its weights. The set of narrow weights is
// therefore decided for all of them together, from FindNarrowWeights of each. A
// program that was made later uses the weights as they are stored.
#pragma once

#include <string>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "engine/graph/graph.h"

namespace gpupool::engine {

// Returns the names of the float32 weights that are read only by casts to
// `low`, directly or after reshapes and transposes. Call it after Autocast,
// which inserts the casts.
absl::flat_hash_set<std::string> FindNarrowWeights(const Graph& graph,
                                                   DType low);

// Gives the weights of these names the type `low` and removes their casts. A
// weight that is also read otherwise is cast back to float32 first.
absl::Status NarrowWeights(Graph& graph, DType low,
                           const absl::flat_hash_set<std::string>& names);

}  // namespace gpupool::engine
