// Random graphs of all op families for property tests: images, sequences and
// matrices with broadcasting, reductions, movement, norms and products, in the
// forms that exporters write.
#pragma once

#include <cstdint>

#include "engine/graph/graph.h"

namespace gpupool::engine::testing {

// A graph fixed by the seed, with float32 inputs "input" and, for training,
// "target", and with output "output" or "loss". Training graphs are raised,
// have gradients and an optimizer.
Graph RandomGraph(uint64_t seed, bool training);

}  // namespace gpupool::engine::testing
