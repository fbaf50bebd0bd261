// 16-bit inference: weights of which only 16 bits are ever read are stored in
// 16 bits, rounded once as the graph's cast would round them with every load,
// so that no result changes and half of their bytes are saved. Pure.
//
// All programs of a model share its weights. Which are stored so is therefore
// decided for all of them (FindNarrowWeights of each), and a program that was
// not asked when it was decided takes what there is.
#pragma once

#include <string>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "engine/graph/graph.h"

namespace gpupool::engine {

// Names of the float32 weights that nothing reads but casts to `low`, directly
// or behind reshapes and transposes, once Autocast has put casts in.
absl::flat_hash_set<std::string> FindNarrowWeights(const Graph& graph,
                                                   DType low);

// Gives the weights of these names the type `low` and takes their casts away.
// One that is read otherwise is cast back to float32 first.
absl::Status NarrowWeights(Graph& graph, DType low,
                           const absl::flat_hash_set<std::string>& names);

}  // namespace gpupool::engine
