// Mixed precision: the products of a float32 graph and what lies between them
// run in a 16-bit type, the rest stays float32, and casts stand where the two
// meet. Run it on a forward graph before it is differentiated: gradients then
// have the types of what they are gradients of, so that those of weights are
// float32 again behind the cast's own gradient. Pure.
//
// Who runs in what, after PyTorch's autocast lists (docs/source/amp.rst):
//   16 bits  matmul, batch_matmul, convolutions, attention
//   float32  losses, softmax, sums, means, products and running sums, powers,
//            exponentials and logarithms, reciprocals, tan, asin, acos, sinh,
//            cosh, LRN, input scaling, running statistics, and every op that
//            is not named here
//   as its operands: activations, sums and differences, pools, norms,
//            dropout, movement, gathers and scatters. The widest of the
//            operands decides; weights and constants take the others' type.
// Beyond PyTorch: rows of a weight that indices choose (embeddings) count as
// 16-bit numbers, so that a transformer's residuals are; norms take 16-bit
// numbers and compute, like their parameters and statistics, in float32.
//
// Weights, states, inputs and outputs of the graph keep their types: a weight
// is cast once. Nodes with floating numbers of another type than float32 are
// left as they are.
#pragma once

#include "absl/status/status.h"
#include "engine/graph/graph.h"

namespace gpupool::engine {

// `low` is kBFloat16 or kFloat16.
absl::Status Autocast(Graph& graph, DType low);

}  // namespace gpupool::engine
