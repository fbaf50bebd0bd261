// Algebraic clean-ups that save work and bring the variants of exporters to one
// form:
//   movement    transposes, reshapes, casts, slices, pads, broadcasts and
//               concats that do nothing, or that one node can do, are removed
//   arithmetic  x + 0, x * 1, x / 1, x^1 are x; x^2 is x * x
//   products    transposes go into the flags and scales into the attribute of
//               a product; weights of rank 2 make a batched product a plain
//               one; an added row becomes the bias; reshapes of a product move
//               after the elementwise nodes that follow it
// Exact except for the rounding of scales. Pure.
#pragma once

#include "absl/status/status.h"
#include "engine/graph/graph.h"
#include "engine/passes/rewrite/sweep.h"

namespace gpupool::engine {

absl::Status Simplify(Graph& graph);

// The rules, one for each family.
absl::Status SimplifyMovement(Sweep& sweep, Node& node);
absl::Status SimplifyArithmetic(Sweep& sweep, Node& node);
absl::Status SimplifyProducts(Sweep& sweep, Node& node);

}  // namespace gpupool::engine
