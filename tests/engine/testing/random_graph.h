// Random graphs of all op families for property tests: images, sequences and
// matrices with broadcasting, reductions, movement, norms and products, in the
// forms that exporters write.
#pragma once

#include <cstdint>

#include "engine/graph/graph.h"

namespace gpupool::engine::testing {

// Returns a graph that the seed determines. It has float32 inputs "input" and,
// for training, "target", and the output "output" or "loss". Training graphs
// are raised and have gradients and an optimizer.
Graph RandomGraph(uint64_t seed, bool training);

}  // namespace gpupool::engine::testing
